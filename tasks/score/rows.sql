-- Reading rows to score. Names in braces are filled in by tasks/score.

-- statement: needed
-- What of a window of rows is to be scored, in row order, which the file has. One number stands for evaluator and trial.
SELECT row_id, evaluator_id::UINTEGER * 256 + trial AS score, key
FROM read_parquet({pairs})
WHERE row_id BETWEEN $first AND $last

-- statement: chunk
-- The rows of a chunk with the texts that its evaluators read, in row order. Absent fields are NULL or empty.
SELECT
    rows.row_id,
    cases.case_key,
    models.model_key,
    {columns}
FROM all_rows AS rows
SEMI JOIN (FROM read_parquet({pairs}) WHERE row_id BETWEEN $first AND $last) AS needed USING (row_id)
JOIN cases USING (case_id)
JOIN models USING (model_id)
{joins}
WHERE rows.row_id BETWEEN $first AND $last
ORDER BY rows.row_id

-- statement: all
-- All rows of a small dataset, or some of them, in row order.
SELECT cases.case_key, models.model_key, {columns}
FROM all_rows AS rows
JOIN cases USING (case_id)
JOIN models USING (model_id)
{joins}
WHERE $rows IS NULL OR list_contains($rows, rows.row_id)
ORDER BY rows.row_id

-- statement: talks
-- Joins to each row what it has of a conversation.
LEFT JOIN turns AS talks ON talks.row_id = rows.row_id

-- statement: original
-- Joins to each row the row of the original that its case is a copy of.
LEFT JOIN ({originals}) AS copies ON copies.row_id = rows.row_id
LEFT JOIN rows AS original ON original.row_id = copies.original_row_id

-- statement: rivals
-- Joins to each row the other models' answers to its case.
LEFT JOIN (
    SELECT
        mine.row_id,
        list({{'model': models.model_key, 'answer': other.actual_answer}} ORDER BY models.model_key) AS rival_answers
    FROM (SELECT row_id, case_id, model_id FROM rows WHERE row_id {row_ids}) AS mine
    JOIN rows AS other ON other.case_id = mine.case_id AND other.model_id <> mine.model_id
    JOIN models ON models.model_id = other.model_id
    WHERE other.actual_answer IS NOT NULL
    GROUP BY mine.row_id
) AS rivals ON rivals.row_id = rows.row_id
