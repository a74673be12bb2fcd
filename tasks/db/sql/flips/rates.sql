-- Pairs and flips per metric, model and perturbation, and with perturbation '' for all of a model's together.
-- Where the dataset does not say what was done to a case, there is only the line for all together.
SELECT
    metric_id,
    model_id,
    coalesce(kind, '') AS perturbation,
    sum(n_pairs)::BIGINT AS n_pairs,
    sum(n_passed_to_failed)::BIGINT AS n_passed_to_failed,
    sum(n_failed_to_passed)::BIGINT AS n_failed_to_passed
FROM counted
JOIN (SELECT DISTINCT bucket, model_id, kind FROM pairs) USING (bucket)
GROUP BY GROUPING SETS ((metric_id, model_id, kind), (metric_id, model_id))
HAVING sum(n_pairs) > 0 AND kind IS DISTINCT FROM ''
ORDER BY metric_id, model_id, perturbation
