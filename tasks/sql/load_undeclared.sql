-- Answers to cases that the document does not have.
SELECT record, part, case_key
FROM staged_rows
WHERE case_key IN (SELECT case_key FROM case_ids WHERE only_named)
ORDER BY row_id
