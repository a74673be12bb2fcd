-- Answers to cases that the document does not have; not those of cases that may stand in what could not be read.
SELECT record, part, case_key
FROM staged_rows
WHERE
    case_key IN (SELECT case_key FROM case_ids WHERE only_named)
    AND NOT contains(getvariable('lost'), case_key)  -- null, and so no fault, if nobody knows what is lost
ORDER BY row_id
