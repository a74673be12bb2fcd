-- Cases of two versions of a dataset, told apart by their keys and by what they ask and expect.

-- statement: changed
CREATE TABLE changed AS
SELECT
    case_key,
    CASE WHEN before.asked IS NULL THEN 'added' WHEN after.asked IS NULL THEN 'removed' ELSE 'edited' END AS kind
FROM (
    SELECT case_key, hash(question, expected_answers, expected_documents, condition) AS asked FROM read_parquet($before)
) AS before
FULL JOIN (
    SELECT case_key, hash(question, expected_answers, expected_documents, condition) AS asked FROM read_parquet($after)
) AS after USING (case_key)
WHERE before.asked IS DISTINCT FROM after.asked;

-- statement: counts
SELECT kind, count(*) FROM changed GROUP BY kind;

-- statement: lines
WITH page AS (
    FROM changed WHERE $kind IS NULL OR kind = $kind
    ORDER BY kind = 'removed', kind = 'added', case_key
    LIMIT $limit OFFSET $offset
)
SELECT
    page.kind, page.case_key AS "case",
    left(before.question, 2000) AS question_before, left(after.question, 2000) AS question,
    before.expected_answers IS DISTINCT FROM after.expected_answers AS expects_else
FROM page
LEFT JOIN (FROM read_parquet($before) WHERE case_key IN (SELECT case_key FROM page)) AS before USING (case_key)
LEFT JOIN (FROM read_parquet($after) WHERE case_key IN (SELECT case_key FROM page)) AS after USING (case_key)
ORDER BY page.kind = 'removed', page.kind = 'added', page.case_key;

-- statement: questions
-- A sample of the cases, the same in each version.
SELECT left(question, 2000) FROM read_parquet($file) WHERE question IS NOT NULL ORDER BY hash(case_key), case_key LIMIT $most;
