-- Answers of a model to a case that it has answered before.
SELECT later.record, later.part, later.case_key, later.model_id, first.record AS first_record
FROM staged_rows later
JOIN (
    SELECT case_key, model_id, min(row_id) AS row_id
    FROM staged_rows
    WHERE NOT derived
    GROUP BY case_key, model_id
    HAVING count(*) > 1
) pair ON pair.case_key = later.case_key AND pair.model_id = later.model_id AND pair.row_id < later.row_id
JOIN staged_rows first ON first.row_id = pair.row_id
ORDER BY later.row_id
