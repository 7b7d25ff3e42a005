"""The engines' workload: Deployment and Service, pinned plan and template, rollout strategy, stall watchdog."""
