-- Rows that an evaluator has to score, trials counted, and the mean length of what it reads of them.
SELECT
    count(*) AS scores,
    coalesce(avg({length}), 0) AS characters
FROM to_compute
JOIN rows USING (row_id)
JOIN cases USING (case_id)
WHERE to_compute.evaluator_id = {evaluator_id}
