-- Every case that changed sides of a threshold, for flips.csv.
CREATE OR REPLACE TEMP TABLE all_flips (
    evaluator VARCHAR,
    metric VARCHAR,
    baseline_model VARCHAR,
    candidate_model VARCHAR,
    "case" VARCHAR,
    direction VARCHAR,
    baseline DOUBLE,
    candidate DOUBLE,
    threshold DOUBLE
)
