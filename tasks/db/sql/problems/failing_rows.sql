-- The rows below (or above) the threshold for the metrics and models in wanted, worst first.
SELECT
    metric_id,
    model_id,
    count(*) AS n_failed,
    arg_min(row_id, (CASE WHEN upper_is_good THEN value ELSE -value END, row_id), {most}) AS row_ids
FROM row_scores
JOIN rows USING (row_id)
JOIN wanted USING (metric_id, model_id)
JOIN targets USING (metric_id)
WHERE (value >= above) <> upper_is_good
GROUP BY metric_id, model_id
