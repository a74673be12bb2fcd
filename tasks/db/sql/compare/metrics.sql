-- What a side's run measured, each metric with the configuration of its evaluator.
SELECT * EXCLUDE (metrics.name, evaluators.name), metrics.name AS name, evaluators.name AS evaluator_name
FROM {side}.metrics AS metrics
JOIN {side}.evaluators AS evaluators USING (evaluator_id)
ORDER BY metric_id
