"""What the operator assumes of every engine. A new engine is one more `Subject` in `test_contract.py`."""

import re
from dataclasses import dataclass, fields, replace

from hypothesis import given
from hypothesis import strategies as st

from inference_operator.api.engine import EngineSpec
from inference_operator.api.hardware import Device
from inference_operator.api.model import ModelSpec
from inference_operator.api.reasons import Reason
from inference_operator.engines.base import Engine
from inference_operator.engines.process import EngineProcess, ServedModel, Timeouts
from inference_operator.engines.programs import PROGRAMS_VARIABLE
from inference_operator.engines.series import series
from inference_operator.engines.telemetry import EngineSeries
from inference_operator.models.facts import ModelFacts
from inference_operator.settings import Settings
from inference_operator.sizing.budget import Budget, TermName
from inference_operator.sizing.plan import unchecked_plan
from inference_operator.sizing.shape import BATCHED_TOKENS, CONTEXT, SEQUENCES, ParallelSizes, Shape, SizingInputs
from inference_operator.units import GIB
from tests.sizing.pools import model, pool

TIMEOUTS = Timeouts(startup=1800, dns_staleness=15, drain=300)
SERVED = ServedModel("/models/qwen", "qwen", folder="/models/qwen")
FACTS = model("Qwen/Qwen3-8B")
(H100,) = pool("H100:8")
NEAR = 1e-6

SHORT = 200
"""Characters of one word of a command that is still read as a line."""
"""GiB by which sums may differ."""
FIGURES = tuple(one.name for one in fields(EngineSeries) if one.name != "former")


@dataclass(frozen=True)
class Subject:
    """An engine, and a page of metrics that a real one has written while it computed requests; empty if it has none."""

    name: str
    engine: Engine
    page: str = ""
    running: int = 0
    """Requests that it computed then."""
    facts: ModelFacts = FACTS
    """A model that it runs."""


class EngineContract:
    """Tests of one engine, as the fixture `subject` gives it."""

    # Validation

    def test_classes_of_options_do_not_overlap(self, subject: Subject) -> None:
        classes = subject.engine.option_classes
        assert not classes.safe & classes.managed
        assert not classes.safe_variables & classes.managed_variables
        assert classes.secret_variables <= classes.safe_variables

    def test_an_empty_specification_is_accepted_with_the_image_of_each_device(self, subject: Subject) -> None:
        settings = Settings()
        for device in Device:
            image = subject.engine.image(device, settings)
            assert image
            assert subject.engine.check(EngineSpec(), image=image, settings=settings) is None

    def test_unsupported_fields_exist_and_are_refused_by_name(self, subject: Subject) -> None:
        values = {
            "kvCacheDtype": "fp8",
            "gpuMemoryUtilization": 0.5,
            "quantization": "fp8",
            "cpuOffloadGiB": 8,
            "toolCallParser": "hermes",
            "reasoningParser": "qwen3",
            "dtype": "float16",
            "adapterSlots": 4,
            "maxAdapterRank": 64,
            "generation": {"temperature": 0.5},
            "multimodal": {"video": True},
            "ropeScaling": {"factor": 2},
            "kvOffload": {"memory": "8Gi"},
            "speculative": {"method": "Ngram"},
        }
        for name in subject.engine.unsupported_fields:
            refusal = subject.engine.check_fields(EngineSpec.model_validate({name: values[name]}))
            assert refusal is not None
            assert (refusal.reason, refusal.field) == (Reason.INVALID_SPEC, f"spec.engine.{name}")
        assert subject.engine.check_fields(EngineSpec()) is None

    # The model

    def test_weights_are_read_in_one_format_at_least(self, subject: Subject) -> None:
        assert subject.engine.formats
        assert subject.engine.check_format(subject.facts) is None

    def test_architectures_are_supported_or_have_an_obstacle_in_a_sentence(self, subject: Subject) -> None:
        engine = subject.engine
        image = engine.image(Device.GPU, Settings())
        known = subject.facts.architecture
        assert not engine.support(known, image=image).obstacle
        assert not engine.support("", image=image).obstacle, "nothing is known, so nothing stands against it"
        for found in (engine.support(name, image=image) for name in ("", known, "GPTNeoForCausalLM", "X")):
            assert all(not text or text.endswith(".") for text in (found.obstacle, found.lost))

    def test_jobs_read_the_model_as_the_process_does(self, subject: Subject) -> None:
        access, process = subject.engine.access(EngineSpec(), ModelSpec(source="hf://Qwen/Qwen3-8B")), made(subject)
        assert (access.user, access.group) == (process.user, process.group)
        assert set(access.writable) == set(process.writable)
        assert access.compiled == process.compiled

    # The process

    def test_the_process_serves_the_model_and_nothing_but_inference(self, subject: Subject) -> None:
        process = made(subject)
        assert process.command or process.args
        assert any(SERVED.model in word for word in process.args)
        assert SERVED.name in process.model_names
        assert 0 < process.port < 2**16
        assert process.max_concurrency > 0
        page = subject.engine.metrics_page
        closed = [process.health_path, *([page.path] if page else [])]
        assert all(path.startswith("/") for path in (*process.api_paths, *closed, *process.writable))
        assert not [one for one in closed for api in process.api_paths if f"{one}/".startswith(f"{api}/")]

    def test_a_command_of_the_process_is_a_short_line_and_runs_no_program_that_the_process_lacks(
        self, subject: Subject
    ) -> None:
        process = made(subject)
        words = [*process.command, *process.pre_stop]
        assert all("\n" not in word and len(word) <= SHORT for word in words), "`kubectl describe` prints each"
        run = {name for word in words for name in re.findall(rf'{PROGRAMS_VARIABLE}"\)\)\["(\w+)"\]', word)}
        assert run <= set(process.programs)
        assert bool(run) == any(PROGRAMS_VARIABLE in word for word in words)

    def test_the_process_has_the_time_to_start_and_to_end_its_requests(self, subject: Subject) -> None:
        process = made(subject)
        assert process.startup_seconds == TIMEOUTS.startup
        assert process.stop_seconds >= TIMEOUTS.dns_staleness + TIMEOUTS.drain
        assert bool(process.pre_stop) != bool(process.pre_stop_seconds)
        assert process.pre_stop_seconds <= process.stop_seconds

    def test_an_option_that_ends_a_shared_cache_of_prefixes_is_allowed_and_ends_it(self, subject: Subject) -> None:
        plan, image = unchecked_plan(SizingInputs(tensor=1)), subject.engine.image(Device.GPU, Settings())
        named = re.findall(r"`(--[\w-]+)`", made(subject).prefix_cure)
        if not named:
            return
        off = EngineSpec(args=tuple(named))
        assert subject.engine.check(off, image=image, settings=Settings()) is None
        assert not subject.engine.process(off, plan, SERVED, TIMEOUTS).prefix_cure

    def test_the_probe_request_is_one_that_clients_may_send(self, subject: Subject) -> None:
        request = subject.engine.probe_request("qwen")
        if request is not None:
            assert any(f"{request.path}/".startswith(f"{path}/") for path in made(subject).api_paths)
            assert "qwen" in str(request.body)

    # The log

    @given(log=st.text(max_size=300))
    def test_a_foreign_log_shows_nothing(self, subject: Subject, log: str) -> None:
        assert subject.engine.diagnose(log) is None
        assert subject.engine.shortage(log) is None
        assert subject.engine.phase(log) is None

    # Telemetry

    def test_a_recorded_page_has_every_series_that_the_engine_names(self, subject: Subject) -> None:
        table = subject.engine.series
        names = {getattr(table, figure) for figure in FIGURES} - {""}
        histograms = {table.first_token, table.inter_token} - {""}
        written = {f"{name}_bucket" if name in histograms else name for name in names}
        assert {one.name for one in series(subject.page, sorted(written))} == written
        assert set(table.former) <= names

    def test_a_recorded_page_gives_a_sample_and_a_foreign_page_none(self, subject: Subject) -> None:
        if subject.engine.metrics_page is None:
            assert (subject.page, subject.engine.series) == ("", EngineSeries())
        else:
            sample = subject.engine.sample(subject.page)
            assert sample is not None
            assert sample.running == subject.running
            assert subject.engine.metrics_page.idle_seconds > 0
        for page in ("", "<html></html>", "other_requests 1\n"):
            assert subject.engine.sample(page) is None
            assert subject.engine.load(page) is None

    # Sizes

    def test_the_terms_of_the_budget_make_up_what_the_engine_may_use(self, subject: Subject) -> None:
        found = budget(subject)
        counted = [term.gib for term in found.terms if term.origin.in_budget is not False]
        assert abs(sum(counted) - found.offered) < NEAR
        assert len({term.name for term in found.terms}) == len(found.terms)
        assert {TermName.WEIGHTS, TermName.KV_CACHE} <= {term.name for term in found.terms}
        assert all(str(term.origin) for term in found.terms)
        assert found.memory == H100.memory_gib
        assert found.fits

    def test_sizes_to_try_are_those_that_the_model_allows(self, subject: Subject) -> None:
        on_gpus = subject.engine.on_gpus("", H100)
        assert on_gpus.unable(FACTS, Shape()) is None
        sizes = on_gpus.allowed_sizes(FACTS, Shape(), 8)
        assert set(sizes) <= set(range(1, 9))
        broken = [size for size in sizes if on_gpus.broken_rule(FACTS, Shape(ParallelSizes(size)))]
        assert (sizes[0], list(sizes), broken) == (1, sorted(sizes), [])

    def test_a_longer_context_needs_more_and_more_gpus_need_less_each(self, subject: Subject) -> None:
        short, long = budget(subject), budget(subject, context=2**15)
        assert long.kv_needed > short.kv_needed
        assert long.concurrency <= short.concurrency
        sizes = subject.engine.on_gpus("", H100).allowed_sizes(FACTS, Shape(), 8)
        assert subject.engine.divides_models == (len(sizes) > 1)
        for size in sizes[1:]:
            spread = budget(subject, tensor=size)
            assert spread.weights < short.weights
            assert spread.headroom > short.headroom

    def test_an_engine_over_nodes_has_a_member_in_each_pod(self, subject: Subject) -> None:
        alone = unchecked_plan(SizingInputs(tensor=1))
        assert subject.engine.process(EngineSpec(), alone, SERVED, TIMEOUTS).member is None
        spread = replace(alone, parallel=ParallelSizes(tensor=1, pipeline=2, nodes=2), gpus_per_replica=2)
        member = subject.engine.process(EngineSpec(), spread, SERVED, TIMEOUTS).member
        assert subject.engine.runs_over_nodes == (member is not None)

    def test_memory_that_an_engine_reported_is_missing_afterwards(self, subject: Subject) -> None:
        missing = budget(subject).headroom - budget(subject, reported_gib=2.0).headroom
        assert 1.0 < missing < 2.0 + NEAR, "an engine may take less for activations of a smaller KV cache"

    def test_sizes_that_are_left_to_the_engine_are_no_requested_ones(self, subject: Subject) -> None:
        shape = Shape(context=2**13, max_num_seqs=8, max_num_batched_tokens=2**13)
        memory = subject.engine.on_gpus("", H100)
        request, nothing = SizingInputs(shape=shape), SizingInputs()
        assert memory.left_to_engine(FACTS, shape, memory.budget(FACTS, shape), request) == ()
        found = memory.left_to_engine(FACTS, Shape(), memory.budget(FACTS, Shape()), nothing)
        assert set(found) <= {CONTEXT, SEQUENCES, BATCHED_TOKENS}

    def test_on_cpus_the_pod_has_memory_for_weights_and_cache(self, subject: Subject) -> None:
        found, unknown = (subject.engine.cpu_needs(one, Shape(context=2**13)) for one in (FACTS, None))
        assert found.context == 2**13
        assert found.memory_gib >= (FACTS.weight_bytes + found.cache_bytes) / GIB
        assert unknown.memory_gib >= unknown.cache_bytes / GIB


def made(subject: Subject) -> EngineProcess:
    """The process of an engine on one GPU."""
    plan = unchecked_plan(SizingInputs(tensor=1))
    return subject.engine.process(EngineSpec(), plan, SERVED, TIMEOUTS)


def budget(subject: Subject, *, tensor: int = 1, context: int = 2**13, reported_gib: float = 0.0) -> Budget:
    """The budget of an H100."""
    shape = Shape(ParallelSizes(tensor), context=context)
    return subject.engine.on_gpus("", H100, reported_gib=reported_gib).budget(FACTS, shape)
