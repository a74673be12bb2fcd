-- Squared deviations by Welford's method.
SELECT metric_id, model_id, var_pop(value) * count(value) AS squares
FROM row_scores
JOIN rows USING (row_id)
WHERE metric_id IN ({metrics})
GROUP BY metric_id, model_id
