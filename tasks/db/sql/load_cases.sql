-- The cases that were mentioned, in the order of their first mention, each with the mention that describes it best.

CREATE TABLE case_ids AS
SELECT row_number() OVER (ORDER BY first_seq) - 1 AS case_id, *
FROM (
    SELECT
        case_key,
        min(seq) AS first_seq,
        coalesce(min(seq) FILTER (NOT bare), min(seq)) AS best_seq,
        bool_and(bare) AS only_named,
        count(*) FILTER (NOT bare) AS mentions
    FROM staged_cases
    GROUP BY case_key
);

-- What the best mention leaves out and a later one says; a line only where there are several.
CREATE TABLE case_patches AS
SELECT
    s.case_key,
    arg_min(s.question, s.seq) FILTER (s.question IS NOT NULL)                     AS question,
    arg_min(s.expected_answers, s.seq) FILTER (s.expected_answers IS NOT NULL)     AS expected_answers,
    arg_min(s.expected_documents, s.seq) FILTER (s.expected_documents IS NOT NULL) AS expected_documents,
    arg_min(s.condition, s.seq) FILTER (s.condition IS NOT NULL)                   AS condition,
    arg_min(s.categories, s.seq) FILTER (s.categories IS NOT NULL)                 AS categories,
    arg_min(s.expected_annotations, s.seq) FILTER (s.expected_annotations IS NOT NULL) AS expected_annotations,
    arg_min(s.metadata, s.seq) FILTER (s.metadata IS NOT NULL)                     AS metadata
FROM staged_cases s
SEMI JOIN (
    SELECT case_key
    FROM staged_cases
    WHERE NOT bare
    GROUP BY case_key
    HAVING count(*) > 1 AND (
        count(question) NOT IN (0, count(*)) OR count(expected_answers) NOT IN (0, count(*))
        OR count(expected_documents) NOT IN (0, count(*)) OR count(condition) NOT IN (0, count(*))
        OR count(categories) NOT IN (0, count(*)) OR count(metadata) NOT IN (0, count(*))
        OR count(expected_annotations) NOT IN (0, count(*))
    )
) uneven USING (case_key)
GROUP BY s.case_key;
