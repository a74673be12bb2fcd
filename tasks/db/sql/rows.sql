-- Reading rows to score. Names in braces are filled in by tasks/score.

-- statement: chunk
-- The rows of a chunk with the texts that its evaluators read, in row order. Absent fields are NULL or empty.
SELECT
    needed.row_id,
    needed.jobs,
    cases.case_key,
    models.model_key,
    {columns}
FROM (
    SELECT row_id, list({{'evaluator_id': evaluator_id, 'trial': trial, 'key': key}}) AS jobs
    FROM read_parquet({pairs})
    WHERE row_id BETWEEN ? AND ?
    GROUP BY row_id
) AS needed
JOIN rows USING (row_id)
JOIN cases USING (case_id)
JOIN models USING (model_id)
WHERE rows.row_id BETWEEN ? AND ?
ORDER BY needed.row_id

-- statement: all
-- All rows of a small dataset with all their fields, in row order.
SELECT cases.case_key, models.model_key, {columns}
FROM rows
JOIN cases USING (case_id)
JOIN models USING (model_id)
ORDER BY rows.row_id
