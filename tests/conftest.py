from hypothesis import HealthCheck, settings

# Neither the time of one example nor that of making examples says anything on a machine that does other things too.
settings.register_profile("here", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("here")
