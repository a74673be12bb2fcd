-- The evaluators and models that have payloads for a metric that is no mean of rows.
SELECT DISTINCT evaluator_id, model_id
FROM evidence
JOIN rows USING (row_id)
WHERE payload IS NOT NULL
  AND evaluator_id IN (SELECT evaluator_id FROM metrics WHERE dataset_level OR pooled)
ORDER BY evaluator_id, model_id
