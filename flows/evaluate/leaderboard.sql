-- The primary metric of each evaluator by model, best first, with interval and coverage.
SELECT
    evaluators.evaluator,
    metrics.name AS metric,
    models.model_key AS model,
    aggregates.value,
    aggregates.ci_low,
    aggregates.ci_high,
    aggregates.threshold,
    aggregates.verdict,
    aggregates.n_scored AS scored,
    aggregates.n_unscored AS unscored
FROM aggregates
JOIN metrics USING (metric_id)
JOIN evaluators USING (evaluator_id)
JOIN models USING (model_id)
WHERE metrics.is_primary
ORDER BY
    evaluators.evaluator,
    CASE WHEN metrics.higher_is_better THEN -aggregates.value ELSE aggregates.value END NULLS LAST,
    models.model_key
