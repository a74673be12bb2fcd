-- Relationships whose target is the case itself, or no case; not those whose target may stand in what could not be read.
SELECT record, part, case_key, target
FROM staged_links
WHERE
    target = case_key
    OR (
        target NOT IN (SELECT case_key FROM case_ids)
        AND NOT contains(getvariable('lost'), target)  -- null, and so no fault, if nobody knows what is lost
    )
ORDER BY record
