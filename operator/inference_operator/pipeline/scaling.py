"""The part of a decision that concerns the number of engines."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from inference_operator.api.reasons import ConditionType
from inference_operator.api.router import RouterStrategy
from inference_operator.api.spec import Spec
from inference_operator.api.status import AutoscalingStatus
from inference_operator.autoscaling import autoscalers
from inference_operator.autoscaling.autoscaler_state import AutoscalerInputs, AutoscalerState, autoscaler_state
from inference_operator.autoscaling.conflict import ConflictRequest, ScalingConflict, scaling_conflict, scale_writers
from inference_operator.autoscaling.query import QueryRequest, engines_query
from inference_operator.autoscaling.removal_order import DeletionCost, deletion_costs
from inference_operator.autoscaling.request import (
    ScalingResult,
    correction_factor,
    objective,
    scaling_request,
    wanted_replicas,
)
from inference_operator.autoscaling.schedule import Floor, floor_at
from inference_operator.autoscaling.target import Target, target_concurrency
from inference_operator.manifest import Manifest, Ref
from inference_operator.objects.names import workload_name
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Planned
from inference_operator.pipeline.role import Role
from inference_operator.planning.capacity import fixed_replicas
from inference_operator.roles.context import LiveRole, RoleContext
from inference_operator.roles.pinned_plan import PinnedPlan
from inference_operator.settings import Capacity
from inference_operator.views.workload import workload_view
