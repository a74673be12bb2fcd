-- What the dataset-level metrics of one evaluator and model are computed from: each distinct payload, how many rows have
-- it, and a case that does. A row that was scored in several trials counts once.
SELECT payload, sum(weight) AS weight, arg_min(case_key, row_id) AS case_key
FROM (
    SELECT row_id, case_id, payload, 1.0 / count(*) OVER (PARTITION BY row_id) AS weight
    FROM evidence
    JOIN rows USING (row_id)
    WHERE payload IS NOT NULL AND evaluator_id = $evaluator_id AND model_id = $model_id
)
JOIN cases USING (case_id)
GROUP BY payload
ORDER BY payload
