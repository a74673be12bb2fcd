-- What dataset-level metrics are computed from: each distinct payload of a model, and how many rows have it.
-- A row that was scored in several trials counts once.
SELECT evaluator_id, model_id, payload, sum(weight) AS weight
FROM (
    SELECT evaluator_id, row_id, payload, 1.0 / count(*) OVER (PARTITION BY evaluator_id, row_id) AS weight
    FROM evidence
    WHERE payload IS NOT NULL AND evaluator_id IN (SELECT evaluator_id FROM metrics WHERE dataset_level)
)
JOIN rows USING (row_id)
GROUP BY evaluator_id, model_id, payload
ORDER BY evaluator_id, model_id, payload
