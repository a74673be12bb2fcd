-- Relationships whose target is no case, or the case itself.
SELECT record, part, case_key, target
FROM staged_links
WHERE target = case_key OR target NOT IN (SELECT case_key FROM case_ids)
ORDER BY record
