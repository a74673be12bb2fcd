-- Mentions of a case whose {column} is another than that of its first mention that has one.
SELECT later.record, later.part, later.case_key, pair.first_record
FROM staged_cases later
JOIN (
    SELECT case_key, arg_min(hash({column}), seq) AS first_hash, arg_min(record, seq) AS first_record
    FROM staged_cases
    WHERE {column} IS NOT NULL
    GROUP BY case_key
    HAVING min(hash({column})) <> max(hash({column}))
) pair USING (case_key)
WHERE later.{column} IS NOT NULL AND hash(later.{column}) <> pair.first_hash
ORDER BY later.seq
