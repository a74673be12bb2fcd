-- Slices: rows of a run that share a value of a column. A name in braces is filled in by tasks/analyse.

-- statement: metadata_keys
-- The keys of the metadata of {table} (cases or rows) whose values are texts, numbers or truths.
SELECT
    key,
    count(DISTINCT atom ->> '$') AS n_values,
    max(length(atom ->> '$')) AS longest
FROM {table}, json_each(metadata)
WHERE metadata <> '{{}}' AND type NOT IN ('OBJECT', 'ARRAY', 'NULL')
GROUP BY key
ORDER BY key

-- statement: candidates
CREATE OR REPLACE TEMP TABLE candidates (slice_column VARCHAR, slice_value VARCHAR, row_id UINTEGER)

-- statement: category
-- The marks that perturbing leaves among the categories are no categories.
INSERT INTO candidates
SELECT $column, category, row_id
FROM rows
JOIN (SELECT case_id, unnest(list_distinct(categories)) AS category FROM cases) USING (case_id)
WHERE category <> '' AND category <> 'perturbed' AND NOT regexp_matches(category, '^(perturbed_by|encoding_perturbator):')

-- statement: case_metadata
INSERT INTO candidates
SELECT $column, value, row_id
FROM rows
JOIN (
    SELECT case_id, atom ->> '$' AS value
    FROM cases, json_each(metadata)
    WHERE metadata <> '{}' AND key = $key AND type NOT IN ('OBJECT', 'ARRAY', 'NULL')
) USING (case_id)

-- statement: row_metadata
INSERT INTO candidates
SELECT $column, atom ->> '$', row_id
FROM rows, json_each(metadata)
WHERE metadata <> '{}' AND key = $key AND type NOT IN ('OBJECT', 'ARRAY', 'NULL')

-- statement: language
-- A guess by script, and among the languages of the Latin script by their commonest short words (Grefenstette 1995): at
-- least two of them, and more than of any other language.
INSERT INTO candidates
WITH words AS (
    SELECT case_id, unnest(regexp_extract_all(lower(question[:400]), '\p{L}+')) AS word
    FROM cases
    WHERE question IS NOT NULL
),
hits AS (
    SELECT case_id, number, bit_count(bit_or(bit))::INTEGER AS n
    FROM words
    JOIN language_words USING (word)
    GROUP BY case_id, number
),
-- The first and the last of the languages with most words are one where no other has as many. Both are numbers, which
-- take no memory of their own.
best AS (
    SELECT case_id, max(n * 64 + 63 - number) AS first, max(n * 64 + number) AS last
    FROM hits
    GROUP BY case_id
),
latin AS (
    SELECT case_id, language
    FROM best
    JOIN (SELECT DISTINCT number, language FROM language_words) ON number = last % 64
    WHERE last >= 2 * 64 AND number = 63 - first % 64
),
guessed AS (
    SELECT
        case_id,
        CASE
            WHEN strlen(question) = length(question) THEN latin.language -- ASCII alone
            WHEN regexp_matches(question, '[\p{Hiragana}\p{Katakana}]') THEN 'ja'
            WHEN regexp_matches(question, '\p{Hangul}') THEN 'ko'
            WHEN regexp_matches(question, '\p{Han}') THEN 'zh'
            WHEN regexp_matches(question, '\p{Cyrillic}{3}') THEN 'Cyrillic script'
            WHEN regexp_matches(question, '\p{Arabic}{3}') THEN 'Arabic script'
            WHEN regexp_matches(question, '\p{Devanagari}{3}') THEN 'Devanagari script'
            WHEN regexp_matches(question, '\p{Greek}{3}') THEN 'el'
            WHEN regexp_matches(question, '\p{Hebrew}{3}') THEN 'he'
            WHEN regexp_matches(question, '\p{Thai}{3}') THEN 'th'
            ELSE latin.language
        END AS language
    FROM cases
    LEFT JOIN latin USING (case_id)
)
SELECT $column, language, row_id
FROM rows
JOIN guessed USING (case_id)
WHERE language IS NOT NULL

-- statement: question_length
-- Words of the question, in bands that are the same for every dataset. Scripts without blanks have no words to count.
-- Between single blanks they are counted by these, which is five times as fast as to split.
INSERT INTO candidates
SELECT
    $column,
    CASE
        WHEN n <= 5 THEN '1 to 5 words'
        WHEN n <= 10 THEN '6 to 10 words'
        WHEN n <= 20 THEN '11 to 20 words'
        WHEN n <= 50 THEN '21 to 50 words'
        WHEN n <= 200 THEN '51 to 200 words'
        ELSE 'over 200 words'
    END,
    row_id
FROM rows
JOIN (
    SELECT
        case_id,
        CASE
            WHEN
                question = trim(question)
                AND question <> ''
                AND NOT contains(question, '  ')
                AND NOT regexp_matches(question, '[\t\r\n]')
                THEN strlen(question) - strlen(replace(question, ' ', '')) + 1
            ELSE len([word FOR word IN string_split(translate(question, e'\t\r\n', '   '), ' ') IF word <> ''])
        END AS n
    FROM cases
    WHERE
        strlen(question) = length(question)
        OR NOT regexp_matches(question, '[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}]')
) USING (case_id)
WHERE n > 0

-- statement: perturbation
-- Cases that are no copies are 'none'; copies of which the dataset does not say what was done are 'unnamed'.
INSERT INTO candidates
WITH kinds AS (
    SELECT case_id, string_agg(DISTINCT coalesce(nullif(perturbation, ''), 'unnamed'), ', ' ORDER BY 1) AS kind
    FROM relationships
    WHERE type = 'perturbation_source' AND case_id <> original_case_id
    GROUP BY case_id
)
SELECT $column, coalesce(kind, 'none'), row_id
FROM rows
LEFT JOIN kinds USING (case_id)
WHERE EXISTS (FROM kinds)

-- statement: retrieval
-- Of models that retrieve: whether a document that the case expects is among those that the chunks come from.
INSERT INTO candidates
SELECT $column, outcome, row_id
FROM (
    SELECT
        row_id,
        CASE
            WHEN len(retrieved_context) = 0 THEN 'nothing retrieved'
            WHEN len(expected_documents) = 0 THEN 'something retrieved'
            WHEN list_has_any(expected_documents, [chunk.doc_uri FOR chunk IN retrieved_context])
                THEN 'expected document retrieved'
            WHEN len([chunk FOR chunk IN retrieved_context IF chunk.doc_uri IS NOT NULL]) > 0
                THEN 'expected document missed'
        END AS outcome
    FROM rows
    JOIN cases USING (case_id)
    JOIN models USING (model_id)
    WHERE is_rag AND error IS NULL
)
WHERE outcome IS NOT NULL

-- statement: families
-- Each case with its family: an original and its copies count as one.
CREATE OR REPLACE TEMP TABLE case_families AS
SELECT case_id, coalesce(family, -1 - case_id::BIGINT) AS family
FROM cases
LEFT JOIN families USING (case_id)

-- statement: values
-- The values of the columns by their number of independent cases, the commonest first. Equal rows have equal digests.
SELECT
    slice_column,
    slice_value,
    count(DISTINCT family) AS n_cases,
    count(*) AS n_rows,
    bit_xor(hash(row_id)) AS digest
FROM candidates
JOIN rows USING (row_id)
JOIN case_families USING (case_id)
GROUP BY slice_column, slice_value
ORDER BY slice_column, n_cases DESC, n_rows DESC, slice_value

-- statement: slice_rows
INSERT INTO slice_rows
SELECT slice_column, slice_value, row_id
FROM candidates
JOIN chosen USING (slice_column, slice_value)
WHERE row_id IN (SELECT row_id FROM rows WHERE model_id IN (SELECT model_id FROM aggregates))

-- statement: slice_ids
CREATE OR REPLACE TEMP TABLE slice_ids AS
SELECT slice_column, slice_value, (row_number() OVER (ORDER BY slice_column, slice_value))::USMALLINT AS slice_id
FROM (SELECT DISTINCT slice_column, slice_value FROM slice_rows)

-- statement: row_combinations
-- Rows by the combination of slices that they are in. There are far fewer combinations than rows, so that the scores are
-- summed by combination once, and the slices are summed from these. Slice 0 contains every row.
CREATE OR REPLACE TEMP TABLE row_combinations AS
WITH members AS (
    SELECT row_id, list(slice_id ORDER BY slice_id) AS slice_ids
    FROM slice_rows
    JOIN slice_ids USING (slice_column, slice_value)
    WHERE slice_column IN (SELECT unnest($columns))
    GROUP BY row_id
)
SELECT row_id, model_id, list_prepend(0::USMALLINT, coalesce(slice_ids, [])) AS slice_ids
FROM rows
LEFT JOIN members USING (row_id)
WHERE model_id IN (SELECT model_id FROM aggregates)

-- statement: combinations
CREATE OR REPLACE TEMP TABLE combinations AS
SELECT model_id, slice_ids, (row_number() OVER ())::UINTEGER AS combination
FROM row_combinations
GROUP BY model_id, slice_ids

-- statement: numbered_rows
CREATE OR REPLACE TEMP TABLE numbered_rows AS
SELECT row_id, combination
FROM row_combinations
JOIN combinations USING (model_id, slice_ids)

-- statement: sizes
-- Rows and independent cases of each slice, by model and (model_id NULL) of all models together.
CREATE OR REPLACE TEMP TABLE slice_sizes AS
SELECT slice_id, model_id, count(*) AS n_rows, count(DISTINCT family) AS n_cases
FROM (
    SELECT row_id, slice_id FROM slice_rows JOIN slice_ids USING (slice_column, slice_value)
    UNION ALL
    SELECT row_id, 0 FROM rows
)
JOIN rows USING (row_id)
JOIN case_families USING (case_id)
WHERE model_id IN (SELECT model_id FROM aggregates)
GROUP BY GROUPING SETS ((slice_id, model_id), (slice_id))

-- statement: combination_sums
-- One pass over the scores. Values are taken from their metric's mean, so that no digits are lost in the sums.
CREATE OR REPLACE TEMP TABLE combination_sums AS
SELECT
    metric_id,
    combination,
    count(value) AS n,
    coalesce(count_if(status = 'unscored'), 0) AS n_unscored,
    coalesce(sum(x), 0) AS total,
    coalesce(sum(x * x), 0) AS squares,
    coalesce(sum(x * x * x), 0) AS cubes,
    min(value) AS minimum,
    max(value) AS maximum,
    coalesce(count_if(value >= above), 0) AS n_above
FROM (
    SELECT metric_id, combination, status, value, value - overall AS x, above
    FROM row_scores
    JOIN numbered_rows USING (row_id)
    JOIN overalls USING (metric_id)
)
GROUP BY metric_id, combination

-- statement: centres
-- How far the mean of each metric and model is from the mean over all models.
CREATE OR REPLACE TEMP TABLE centres AS
SELECT metric_id, model_id, value - overall AS centre
FROM aggregates
JOIN overalls USING (metric_id)
WHERE isfinite(value)

-- statement: overalls
-- The metrics whose values are finite, with their mean over all models.
CREATE OR REPLACE TEMP TABLE overalls AS
SELECT
    metric_id,
    sum(value * n_scored) / sum(n_scored) AS overall,
    any_value(above) AS above,
    any_value(upper_is_good) AS upper_is_good
FROM aggregates
JOIN targets USING (metric_id)
WHERE isfinite(value) AND metric_id IN (SELECT unnest($metrics))
GROUP BY metric_id

-- statement: slice_sums
-- The sums of each slice: total, squares and cubes about the model's own mean, and those named overall about the mean
-- over all models. model_id is NULL for all models together.
SELECT
    metric_id,
    slice_id,
    model_id,
    sum(n)::BIGINT AS n_scored,
    sum(n_unscored)::BIGINT AS n_unscored,
    sum(total - n * centre) AS total,
    sum(squares - 2 * centre * total + n * centre * centre) AS squares,
    sum(cubes - 3 * centre * squares + 3 * centre * centre * total - n * centre * centre * centre) AS cubes,
    sum(total) AS overall_total,
    sum(squares) AS overall_squares,
    sum(cubes) AS overall_cubes,
    any_value(overall) AS overall,
    min(minimum) AS minimum,
    max(maximum) AS maximum,
    CASE
        WHEN any_value(above) IS NOT NULL
            THEN sum(CASE WHEN upper_is_good THEN n_above ELSE n - n_above END)::BIGINT
    END AS n_pass
FROM (
    SELECT *, unnest(slice_ids) AS slice_id
    FROM combination_sums
    JOIN combinations USING (combination)
    JOIN centres USING (metric_id, model_id)
    JOIN overalls USING (metric_id)
)
GROUP BY GROUPING SETS ((metric_id, slice_id, model_id), (metric_id, slice_id))

-- statement: metrics
-- The metrics that are measured by slice; compared are those whose slices are compared with the rest.
SELECT metric_id, low, high, is_share, role <> 'information' AS compared, slices
FROM metrics
JOIN rules USING (metric_id)
WHERE (is_primary OR role <> 'information') AND NOT dataset_level AND NOT pooled
ORDER BY metric_id

-- statement: found
-- The slices that differ from the rest by more than chance, and by enough to matter: a share of the metric's range, or of
-- the rest's value where the range has no end. The surest first; of equally sure ones the one that explains most answers.
SELECT slices.*
FROM slices
JOIN metrics USING (metric_id)
WHERE
    q_value <= $rate
    AND value IS NOT NULL
    AND abs(difference) >= $least * if(isfinite(high - low), high - low, abs(rest_value))
ORDER BY q_value, p_value, n_scored * abs(difference) DESC, slice_column, slice_value, metric_id, model_id NULLS FIRST
LIMIT $most

-- statement: demanded
-- The slices of the columns that the rule of their metric names, by model.
SELECT slices.*
FROM slices
JOIN rules USING (metric_id)
WHERE list_contains(rules.slices, slice_column) AND model_id IS NOT NULL
ORDER BY metric_id, model_id, slice_column, slice_value

-- statement: overlaps
-- Which share of the cases of two of the slices in wanted both have.
WITH members AS (
    SELECT DISTINCT slice_column, slice_value, case_id
    FROM slice_rows
    JOIN wanted USING (slice_column, slice_value)
    JOIN rows USING (row_id)
),
sizes AS (SELECT slice_column, slice_value, count(*) AS n FROM members GROUP BY ALL)
SELECT
    a.slice_column AS a_column, a.slice_value AS a_value, b.slice_column AS b_column, b.slice_value AS b_value,
    count(*) / (any_value(a_size.n) + any_value(b_size.n) - count(*)) AS share
FROM members AS a
JOIN members AS b USING (case_id)
JOIN sizes AS a_size ON a_size.slice_column = a.slice_column AND a_size.slice_value = a.slice_value
JOIN sizes AS b_size ON b_size.slice_column = b.slice_column AND b_size.slice_value = b.slice_value
WHERE (a.slice_column, a.slice_value) <> (b.slice_column, b.slice_value)
GROUP BY ALL

-- statement: worst_rows
-- Rows of a slice by the value of a metric, of one model or of all, the worst first (or the best).
SELECT row_id, coalesce((value >= above) <> upper_is_good, false) AS fails
FROM slice_rows
JOIN rows USING (row_id)
JOIN row_scores USING (row_id)
JOIN targets USING (metric_id)
WHERE
    slice_column = $slice_column
    AND slice_value = $slice_value
    AND metric_id = $metric_id
    AND ($model_id::USMALLINT IS NULL OR model_id = $model_id)
    AND value IS NOT NULL
ORDER BY CASE WHEN upper_is_good <> $best THEN value ELSE -value END, row_id
LIMIT {most}
