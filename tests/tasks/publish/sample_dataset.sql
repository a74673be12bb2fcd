-- A dataset of any size. Variables: cases, models, subjects, hostile.

INSERT INTO models
SELECT
    i,
    ['falcon-mini', 'harbour-rag', 'wren-7b <b>&', 'm'][least(i, 3) + 1] || CASE WHEN i > 2 THEN i::VARCHAR ELSE '' END,
    ['Falcon Mini', 'Harbour RAG', 'wren-7b <b>&', 'M'][least(i, 3) + 1],
    CASE i WHEN 1 THEN '2.1' END,
    true
FROM range(getvariable('models')) t(i);

-- Every fifth case is a perturbed copy of the one before it.
INSERT INTO cases
SELECT
    i,
    format('case-{:04d}', i),
    CASE WHEN i % 5 = 4 THEN replace(question, 'know', 'konw') ELSE question END,
    ['It is written in section ' || (i % 9) || ' that ' || subject || ' was fixed in 1983.'],
    ['handbook.pdf'],
    CASE WHEN i % 3 = 0 THEN '"1983" AND NOT regexp("secret")' END,
    ['facts', 'group ' || (i % 4)],
    '{}',
    NULL
FROM (
    SELECT
        i,
        getvariable('subjects')[((i - CASE WHEN i % 5 = 4 THEN 1 ELSE 0 END) % 8) + 1] AS subject,
        'What do you know about ' || subject || ', and where does it stand?' AS question
    FROM range(getvariable('cases')) t(i)
);

INSERT INTO relationships
SELECT i, i - 1, 'perturbation_source', ['typo', 'comma'][(i // 5) % 2 + 1]
FROM range(getvariable('cases')) t(i)
WHERE i % 5 = 4;

-- The third model's first answers are the hostile ones; the first model's host fails now and then.
INSERT INTO rows
SELECT
    case_id * getvariable('models') + model_id,
    case_id,
    model_id,
    CASE
        WHEN model_id = 2 AND case_id < len(getvariable('hostile')) THEN getvariable('hostile')[case_id + 1]
        WHEN case_id % 17 = 3 AND model_id = 0 THEN NULL
        ELSE 'It was fixed in 1983. ' || expected_answers[1]
            || ' Nobody has said otherwise since, as far as model ' || model_id || ' can tell from the pages before it.'
    END,
    [
        {'content': 'The handbook says: ' || expected_answers[1] || ' See also the annex.', 'doc_uri': 'handbook.pdf'},
        {'content': 'An unrelated page about the weather in ' || (case_id % 50) || ' towns.', 'doc_uri': NULL}
    ],
    CASE WHEN case_id % 17 = 3 AND model_id = 0 THEN 'HTTP 503 from the host <overloaded>' END,
    0.4 + model_id * 0.3,
    0.0004 * (model_id + 1),
    300,
    80,
    '{}',
    NULL
FROM cases, models
ORDER BY 1;
