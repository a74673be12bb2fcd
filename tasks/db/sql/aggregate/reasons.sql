-- Why rows have no value.
SELECT metric_id, model_id, coalesce(reason, 'unknown') AS reason, count(*) AS n
FROM row_scores
JOIN rows USING (row_id)
WHERE status = 'unscored'
GROUP BY metric_id, model_id, reason
ORDER BY metric_id, model_id, reason
