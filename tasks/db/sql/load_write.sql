-- The tables of dataset.sql, from what was staged. Statements are separated by a line "-- table: <name>".

-- table: models
SELECT
    m.model_id::USMALLINT AS model_id,
    m.model_key,
    coalesce(m.name, m.model_key) AS name,
    m.version,
    coalesce(r.is_rag, false) AS is_rag
FROM staged_models m
LEFT JOIN (SELECT model_id, bool_or(len(retrieved_context) > 0) AS is_rag FROM staged_rows GROUP BY model_id) r
    USING (model_id)
ORDER BY model_id

-- table: cases
SELECT
    i.case_id::UINTEGER AS case_id,
    i.case_key,
    coalesce(s.question, p.question) AS question,
    coalesce(s.expected_answers, p.expected_answers, []) AS expected_answers,
    coalesce(s.expected_documents, p.expected_documents, []) AS expected_documents,
    coalesce(s.condition, p.condition) AS condition,
    coalesce(s.categories, p.categories, []) AS categories,
    coalesce(s.metadata, p.metadata, '{}') AS metadata,
    coalesce(s.expected_annotations, p.expected_annotations) AS expected_annotations
FROM case_ids i
JOIN staged_cases s ON s.seq = i.best_seq
LEFT JOIN case_patches p ON p.case_key = i.case_key
ORDER BY case_id

-- table: relationships
SELECT DISTINCT
    c.case_id::UINTEGER AS case_id,
    o.case_id::UINTEGER AS original_case_id,
    'perturbation_source' AS type,
    max(l.perturbation) AS perturbation
FROM staged_links l
JOIN case_ids c ON c.case_key = l.case_key
JOIN case_ids o ON o.case_key = l.target
GROUP BY ALL
ORDER BY ALL

-- table: rows
SELECT
    r.row_id,
    i.case_id::UINTEGER AS case_id,
    r.model_id,
    r.actual_answer,
    r.retrieved_context,
    r.error,
    r.duration_s,
    r.cost_usd,
    r.input_tokens,
    r.output_tokens,
    r.metadata,
    r.predicted_annotations
FROM staged_rows r
JOIN case_ids i USING (case_key)
ORDER BY row_id

-- table: digests
WITH case_digests AS (
    SELECT
        case_key,
        digest(question) AS question,
        digest_list(expected_answers) AS expected_answer,
        digest(condition) AS condition,
        digest(to_json(categories)::VARCHAR) AS categories,
        digest_list(expected_documents) AS expected_documents,
        metadata,
        digest(expected_annotations) AS expected_annotations
    FROM read_parquet({cases})
)
SELECT
    r.row_id,
    c.question,
    c.expected_answer,
    digest_list(if(
        list_bool_or(list_transform(r.retrieved_context, lambda x: x.content <> '')),
        list_transform(r.retrieved_context, lambda x: x.content), NULL
    )) AS retrieved_context,
    if(r.error IS NULL, digest(r.actual_answer), NULL) AS actual_answer,
    c.condition,
    c.categories,
    c.expected_documents,
    digest_list(if(
        list_bool_or(list_transform(r.retrieved_context, lambda x: x.doc_uri IS NOT NULL)),
        list_transform(r.retrieved_context, lambda x: x.doc_uri), NULL
    )) AS retrieved_documents,
    digest(CASE
        WHEN r.metadata = '{{}}' THEN c.metadata
        WHEN c.metadata = '{{}}' THEN r.metadata
        ELSE c.metadata || r.metadata
    END) AS metadata,
    c.expected_annotations,
    if(r.error IS NULL, digest(r.predicted_annotations), NULL) AS predicted_annotations
FROM staged_rows r
JOIN case_digests c USING (case_key)
ORDER BY row_id
