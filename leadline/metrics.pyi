"""Every evaluator by its name, with its parameters. Written by make docs."""

from collections.abc import Sequence
from typing import Any, Literal

from leadline.api.metric_choice import MetricChoice

def agent_loops(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    name: str = "",
) -> MetricChoice:
    """Loops of an agent: calls that are made again with the same result, and stretches of calls that go round.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def answer_correctness(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    custom_eval_judge_config_key: str = "",
    embedding_model: str | None = None,
    factuality_weight: float = 0.75,
    beta: float = 1.0,
    name: str = "",
) -> MetricChoice:
    """Weighted mean of the answer's factuality and its semantic similarity to the expected answer.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
        embedding_model: Embedding model of this evaluator: a Hugging Face id, optionally ID@REVISION, a directory,
            or 'offline'. Without it the run's embedder is used, and without that this evaluator's own default.
        factuality_weight: Weight of factuality; the rest is that of semantic similarity.
        beta: Above 1 what the answer lacks counts more than what it says wrongly.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def answer_relevancy(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    custom_eval_judge_config_key: str = "",
    embedding_model: str | None = None,
    generated_questions: int = 3,
    name: str = "",
) -> MetricChoice:
    """Mean similarity of the question and questions that the judge generates from the answer.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
        embedding_model: Embedding model of this evaluator: a Hugging Face id, optionally ID@REVISION, a directory,
            or 'offline'. Without it the run's embedder is used, and without that this evaluator's own default.
        generated_questions: Questions that the judge generates from the answer.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def answer_relevancy_sentence_similarity(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    embedding_model: str | None = None,
    name: str = "",
) -> MetricChoice:
    """Assesses how relevant the answer is by the similarity of the question and the answer's sentences.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        embedding_model: Embedding model of this evaluator: a Hugging Face id, optionally ID@REVISION, a directory,
            or 'offline'. Without it the run's embedder is used, and without that this evaluator's own default.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def answer_semantic_sentence_similarity(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    embedding_model: str | None = None,
    name: str = "",
) -> MetricChoice:
    """Assesses how far the sentences of the answer resemble those of the expected answer.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        embedding_model: Embedding model of this evaluator: a Hugging Face id, optionally ID@REVISION, a directory,
            or 'offline'. Without it the run's embedder is used, and without that this evaluator's own default.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def answer_semantic_similarity(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    custom_eval_judge_config_key: str = "",
    embedding_model: str | None = None,
    method: Literal["embeddings", "cross-encoder"] = "embeddings",
    cross_encoder: str | None = None,
    name: str = "",
) -> MetricChoice:
    """Assesses the semantic resemblance between the answer and the expected answer (ground truth).

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
        embedding_model: Embedding model of this evaluator: a Hugging Face id, optionally ID@REVISION, a directory,
            or 'offline'. Without it the run's embedder is used, and without that this evaluator's own default.
        method: 'embeddings': cosine of the two answers' vectors; 'cross-encoder': one model reads both, slower and
            finer.
        cross_encoder: Cross-encoder with one output: a Hugging Face id, optionally ID@REVISION, or a directory. By
            default cross-encoder/stsb-roberta-base.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def answer_stability(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    embedding_model: str | None = None,
    likeness: Literal["words", "embedding"] = "words",
    name: str = "",
) -> MetricChoice:
    """Likeness of an answer to the same model's answer to the original question, of which this one is a copy.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        embedding_model: Embedding model of this evaluator: a Hugging Face id, optionally ID@REVISION, a directory,
            or 'offline'. Without it the run's embedder is used, and without that this evaluator's own default.
        likeness: What makes two answers alike: words in common, or embeddings that are near.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def bleu(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    name: str = "",
) -> MetricChoice:
    """BLEU-n: the precision of the answer's n-grams in the expected answer, with a penalty for brevity.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def budgets(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    max_tool_calls: int | None = None,
    max_llm_calls: int | None = None,
    max_tokens: int | None = None,
    max_seconds: float | None = None,
    max_cost_usd: float | None = None,
    name: str = "",
) -> MetricChoice:
    """Budgets of a conversation: calls of tools and models, tokens, seconds and dollars, and whether they kept
    limits.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        max_tool_calls: Most calls of tools.
        max_llm_calls: Most calls of language models.
        max_tokens: Most tokens, sent and received.
        max_seconds: Most seconds.
        max_cost_usd: Most US dollars.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def byop(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    custom_eval_judge_config_key: str = "",
    prompt_template: str = "",
    classes: Sequence[str] = ...,
    name: str = "",
) -> MetricChoice:
    """Asks a judge a user's own question about each row, to be answered by one of two words.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
        prompt_template: The prompt, with at least one of {INPUT}, {EXPECTED_OUTPUT}, {CONTEXT} and {ACTUAL_OUTPUT};
            other braces are text. Empty: the reference's, which asks whether the language is safe.
        classes: The words by which the judge says that a row fails, and that it passes.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def chrf(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    char_order: int = 6,
    word_order: int = 0,
    beta: int = 2,
    lowercase: bool = False,
    name: str = "",
) -> MetricChoice:
    """chrF: precision and recall of the runs of up to six characters that answer and expected answer share.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        char_order: Longest run of characters that is compared.
        word_order: Longest run of words that is compared; 0 for chrF, 2 for chrF++.
        beta: How many times as much recall weighs as precision.
        lowercase: Whether capital and small letters are the same.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def citations(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    embedding_model: str | None = None,
    similarity: float = 0.6,
    nli_model: str | None = None,
    uncited: bool = True,
    name: str = "",
) -> MetricChoice:
    """Checks that an answer's citations support what it says: citation recall and precision.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        embedding_model: Embedding model of this evaluator: a Hugging Face id, optionally ID@REVISION, a directory,
            or 'offline'. Without it the run's embedder is used, and without that this evaluator's own default.
        similarity: Least cosine of a statement and a sentence of a context that is support. It depends on the
            embedder: about 0.6 for MiniLM, more for models whose texts are all near each other.
        nli_model: Model for natural language inference that decides instead of similarity: a Hugging Face id,
            optionally ID@REVISION, or a directory.
        uncited: Count answers that cite nothing (0, as in ALCE); else they are not applicable.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def classification(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    average: Literal["macro", "micro", "weighted", "binary"] = "macro",
    positive_label: str | None = None,
    labels: Sequence[str] = (),
    match: Literal["exact", "contains"] = "exact",
    case_sensitive: bool = False,
    categories: Sequence[str] = (),
    max_label_length: int = 50,
    strip: bool = True,
    name: str = "",
) -> MetricChoice:
    """Classification: accuracy, precision, recall and F1 of the labels that a model answered.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        average: How precision, recall and F1 are averaged over the labels, as in scikit-learn; 'binary' takes those
            of the positive label alone.
        positive_label: The label that counts as positive where average is 'binary'.
        labels: The labels there are. Answers outside them count as wrong, and as no label of their own.
        match: 'contains': the answer may be prose in which exactly one of the labels stands as a word.
        case_sensitive: Distinguish upper and lower case in labels.
        categories: Only the cases with one of these categories; empty: all cases.
        max_label_length: A row whose expected answers are all longer, in characters, is prose and not applicable;
            0: no limit.
        strip: Ignore white space around a label and punctuation behind it.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def code_execution(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    allow: bool = False,
    tests_in: str = "metadata",
    timeout_s: float = 5.0,
    memory_mb: int = 512,
    leave: Sequence[Literal["processes", "network", "files", "signals"]] = (),
    name: str = "",
) -> MetricChoice:
    """Runs the answer, a program in Python, and its tests: pass@1. Off unless two switches are on.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        allow: Run the answers as programs. Off by default; the machines that score must allow it too, by the
            variable LEADLINE_ALLOW_CODE_EXECUTION=1.
        tests_in: Where a row's tests stand: metadata (under the key tests) or expected_answer.
        timeout_s: Seconds that an answer and its tests may run.
        memory_mb: Memory that they may take, in megabytes.
        leave: Rights that they may keep where this machine cannot take them away, as the network on macOS; without
            them such a machine runs nothing.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def communicated(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    name: str = "",
) -> MetricChoice:
    """Facts that the user must be told: the share of them that the assistant's messages hold.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def contact_information(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    custom_eval_judge_config_key: str = "",
    evaluate_retrieved_context: bool = False,
    name: str = "",
) -> MetricChoice:
    """Checks the answer for contact information.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
        evaluate_retrieved_context: Check the retrieved context too, with a call of its own; a row fails when it
            does.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def contains(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    texts: Sequence[str] = (),
    which: Literal["any", "all", "none"] = "any",
    ignore_case: bool = True,
    whole_words: bool = True,
    name: str = "",
) -> MetricChoice:
    """Looks for texts in the answer: one of the expected answers, or texts that are given once for all answers.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        texts: Texts to look for in every answer; without them the expected answers.
        which: How many of them must stand in the answer.
        ignore_case: Upper and lower case are the same.
        whole_words: What is found may not go on as a word or number: cat is not in catalogue, 5 not in 3.5.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def context_precision(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    custom_eval_judge_config_key: str = "",
    rewrite: bool = False,
    name: str = "",
) -> MetricChoice:
    """Mean precision at the ranks of the chunks that are useful for the expected answer.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
        rewrite: Have the judge rewrite a question that follows others so that it can be understood by itself; all
            evaluators share the call.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def context_recall(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    custom_eval_judge_config_key: str = "",
    name: str = "",
) -> MetricChoice:
    """Share of the sentences of the expected answer that can be attributed to the retrieved context.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def context_relevancy(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    custom_eval_judge_config_key: str = "",
    rewrite: bool = False,
    name: str = "",
) -> MetricChoice:
    """Share of the sentences of the retrieved context that are relevant to the question.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
        rewrite: Have the judge rewrite a question that follows others so that it can be understood by itself; all
            evaluators share the call.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def context_relevancy_soft(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    custom_eval_judge_config_key: str = "",
    embedding_model: str | None = None,
    name: str = "",
) -> MetricChoice:
    """Measures the relevancy of the retrieved context by the similarity of the question and the chunks' sentences.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
        embedding_model: Embedding model of this evaluator: a Hugging Face id, optionally ID@REVISION, a directory,
            or 'offline'. Without it the run's embedder is used, and without that this evaluator's own default.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def conversation_completeness(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    custom_eval_judge_config_key: str = "",
    name: str = "",
) -> MetricChoice:
    """Share of what the user wanted from a conversation that was done.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def cost(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    name: str = "",
) -> MetricChoice:
    """Price of an answer, in US dollars: the mean, the median, and the 95th and 99th percentile.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def encoding_guardrail(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    evaluate_retrieved_context: bool = True,
    rules: Sequence[str] = ...,
    exclude_documentation_examples: bool = True,
    allow: Sequence[str] = (),
    decode: Literal["categories", "always"] = "categories",
    name: str = "",
) -> MetricChoice:
    """Decodes the encoded parts of an answer and checks them as plain text.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        evaluate_retrieved_context: Scan the retrieved context too; a row fails when its context does.
        rules: Rules to apply, by name; 'default' stands for the default ones, 'all' for all.
        exclude_documentation_examples: Leave out well-known examples: addresses at example.com, test card numbers,
            YOUR_API_KEY.
        allow: What is no leak wherever it stands: your public address and telephone number, or a domain as
            @acme.com. What a row's expected answer holds is none in that row.
        decode: Check only cases whose categories name an encoding, or look for Base16 and Base64 in every answer.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def exact_match(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    ignore_case: bool = True,
    ignore_punctuation: bool = True,
    ignore_articles: bool = True,
    ignore_white_space: bool = True,
    same_dates: bool = True,
    squad: bool = False,
    unicode_form: Literal["as_is", "NFC", "NFKC"] = "NFC",
    name: str = "",
) -> MetricChoice:
    """Compares a short answer with the expected ones: equal or not, and the words that they share.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        ignore_case: Upper and lower case are the same.
        ignore_punctuation: Leave out punctuation around words; signs that say something stay: -5, 3.5, C++, C#,
            10^3.
        ignore_articles: Leave out the words a, an and the before other words.
        ignore_white_space: Any white space is one space, and none at the beginning and the end.
        same_dates: A day with a month's name is the same in any order: February 9, 2018, 9 Feb 2018.
        squad: Fold as SQuAD's script does: all ASCII punctuation is left out, signs and decimal points too, and all
            articles.
        unicode_form: Unicode's normal form to bring texts into first: NFC, NFKC, or as_is for none.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def fact_check(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    custom_eval_judge_config_key: str = "",
    search_tool: str = "",
    max_searches: int = 3,
    max_dataset_rows: int | None = None,
    agent_host_connection_config_key: str = "",
    agent_llm_model_name: str = "",
    agent_eval_h2ogpte_collection_id: str = "",
    name: str = "",
) -> MetricChoice:
    """An agent's score of how free of false information the answer is.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
        search_tool: What the agent searches with: a function as package.module:function, the http(s) address of an
            endpoint that takes the query as q, or an MCP server as mcp+https://HOST/mcp or mcp+stdio:COMMAND, with
            #TOOL at the end to name its tool. Empty: it has only its own knowledge.
        max_searches: Searches for one row, at most.
        max_dataset_rows: Rows to evaluate, at most; further rows are not applicable. Empty: no limit.
        agent_host_connection_config_key: Key of the judge to use as agent, as in the reference.
        agent_llm_model_name: Key of the judge to use as agent, where the other two name none.
        agent_eval_h2ogpte_collection_id: Accepted for the reference's sake; this agent has no collection of
            documents.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def fairness_bias(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    bias_model: str | None = None,
    scale: Literal["probability", "sonar"] = "probability",
    name: str = "",
) -> MetricChoice:
    """Assesses whether the answer contains gender, racial, or political bias.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        bias_model: Classifier with an output called 'Biased': a Hugging Face id, optionally ID@REVISION, or a
            directory. By default d4data/bias-detection-model.
        scale: 'probability': the probability of the label Biased; 'sonar': H2O Sonar's own scale, which moves it
            above 0.75 where that label wins and below 0.25 where it does not.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def faithfulness(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    custom_eval_judge_config_key: str = "",
    name: str = "",
) -> MetricChoice:
    """Share of the claims in the answer that can be inferred from the retrieved context.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def format(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    characters: str | None = None,
    words: str | None = None,
    sentences: str | None = None,
    lines: str | None = None,
    paragraphs: str | None = None,
    bullets: str | None = None,
    numbered_items: str | None = None,
    headings: str | None = None,
    code_blocks: str | None = None,
    tables: str | None = None,
    links: str | None = None,
    markdown: Literal["any", "none", "some"] = "any",
    closed_fences: bool = False,
    code_languages: Sequence[str] = (),
    required_headings: Sequence[str] = (),
    starts_with: str = "",
    ends_with: str = "",
    name: str = "",
) -> MetricChoice:
    """Checks the form of an answer against conditions: how long, which Markdown, which headings, which beginning.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        characters: Characters: "-500" is at most 500.
        words: Words set apart by white space.
        sentences: Sentences.
        lines: Lines that are not blank.
        paragraphs: Paragraphs: no headings, lists, tables or code.
        bullets: Items of lists with -, * or +.
        numbered_items: Items of numbered lists.
        headings: Headings with #.
        code_blocks: Fenced blocks of code.
        tables: Tables.
        links: Links of Markdown: `[text](address)`.
        markdown: none: no Markdown at all; some: not only plain paragraphs.
        closed_fences: No block of code may be left open.
        code_languages: Languages that blocks of code may name.
        required_headings: Headings that must be there in this order, in any case and level.
        starts_with: How the answer must begin.
        ends_with: How the answer must end, white space apart.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def goal_accuracy(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    custom_eval_judge_config_key: str = "",
    name: str = "",
) -> MetricChoice:
    """Success of a conversation: it ends in what the user wanted.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def gptscore_machine_translation(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    gpt_score_model: str = "gpt2-medium",
    name: str = "",
) -> MetricChoice:
    """Assesses a translation against an expected one by the likelihood that a language model gives them.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        gpt_score_model: Language model, causal or encoder-decoder: google/flan-t5-small, google/flan-t5-base,
            google/flan-t5-large, google/flan-t5-xl, google/flan-t5-xxl, facebook/opt-125m, facebook/opt-350m,
            facebook/opt-1.3b, facebook/opt-2.7b, facebook/opt-6.7b, facebook/opt-13b, facebook/opt-66b,
            gpt2-medium, gpt2-large, gpt2-xl, EleutherAI/gpt-j-6B; or another Hugging Face id, optionally
            ID@REVISION, or a directory.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def gptscore_question_answering(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    gpt_score_model: str = "gpt2-medium",
    name: str = "",
) -> MetricChoice:
    """Assesses an answer by how readily a language model says yes when it is asked about a quality of it.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        gpt_score_model: Language model, causal or encoder-decoder: google/flan-t5-small, google/flan-t5-base,
            google/flan-t5-large, google/flan-t5-xl, google/flan-t5-xxl, facebook/opt-125m, facebook/opt-350m,
            facebook/opt-1.3b, facebook/opt-2.7b, facebook/opt-6.7b, facebook/opt-13b, facebook/opt-66b,
            gpt2-medium, gpt2-large, gpt2-xl, EleutherAI/gpt-j-6B; or another Hugging Face id, optionally
            ID@REVISION, or a directory.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def gptscore_summarization_with_reference(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    gpt_score_model: str = "gpt2-medium",
    name: str = "",
) -> MetricChoice:
    """Assesses a summary against an expected one by the likelihood that a language model gives them.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        gpt_score_model: Language model, causal or encoder-decoder: google/flan-t5-small, google/flan-t5-base,
            google/flan-t5-large, google/flan-t5-xl, google/flan-t5-xxl, facebook/opt-125m, facebook/opt-350m,
            facebook/opt-1.3b, facebook/opt-2.7b, facebook/opt-6.7b, facebook/opt-13b, facebook/opt-66b,
            gpt2-medium, gpt2-large, gpt2-xl, EleutherAI/gpt-j-6B; or another Hugging Face id, optionally
            ID@REVISION, or a directory.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def gptscore_summarization_without_reference(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    gpt_score_model: str = "gpt2-medium",
    name: str = "",
) -> MetricChoice:
    """Assesses a summary by the likelihood that a language model gives it after the text that it sums up.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        gpt_score_model: Language model, causal or encoder-decoder: google/flan-t5-small, google/flan-t5-base,
            google/flan-t5-large, google/flan-t5-xl, google/flan-t5-xxl, facebook/opt-125m, facebook/opt-350m,
            facebook/opt-1.3b, facebook/opt-2.7b, facebook/opt-6.7b, facebook/opt-13b, facebook/opt-66b,
            gpt2-medium, gpt2-large, gpt2-xl, EleutherAI/gpt-j-6B; or another Hugging Face id, optionally
            ID@REVISION, or a directory.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def groundedness(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    embedding_model: str | None = None,
    name: str = "",
) -> MetricChoice:
    """Assesses whether the answer is based on the retrieved context, sentence by sentence.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        embedding_model: Embedding model of this evaluator: a Hugging Face id, optionally ID@REVISION, a directory,
            or 'offline'. Without it the run's embedder is used, and without that this evaluator's own default.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def grounding(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    grounding_model: str | None = None,
    supported_from: float = 0.5,
    name: str = "",
) -> MetricChoice:
    """Share of the answer's sentences that some chunk of the retrieved context entails, by a small classifier.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        grounding_model: A classifier for natural language inference: a Hugging Face id, optionally ID@REVISION, or
            a directory. By default tals/albert-xlarge-vitaminc-mnli.
        supported_from: Probability of entailment from which a sentence counts as supported.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def hallucination(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    hallucination_model: str | None = None,
    name: str = "",
) -> MetricChoice:
    """Assesses whether the answer is factually consistent with the retrieved context; higher is better.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        hallucination_model: Weights in the form of HHEM-2.1-Open: a Hugging Face id, optionally ID@REVISION, or a
            directory. By default vectara/hallucination_evaluation_model.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def json_fields(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    rules: dict[str, str | dict[str, Any]] = {},
    default_rule: str | dict[str, Any] = ...,
    null_is_missing: bool = False,
    extra_fields: Literal["count", "ignore"] = "count",
    where: Literal["whole", "fenced", "anywhere"] = "fenced",
    name: str = "",
) -> MetricChoice:
    """Compares the JSON of the answer with the expected JSON, field by field.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        rules: How fields are compared, by path: exact, number, date, set, text or ignore, or an object with
            settings: {"price": {"rule": "number", "relative": 0.01}, "items[*].name": "text", "tags": "set"}.
        default_rule: The rule of all other fields.
        null_is_missing: A field that is null counts as one that is not there.
        extra_fields: Whether fields that nobody expects count against an answer (in F1 and in all_fields).
        where: Where JSON may stand: whole (nothing else is there), fenced (in a fence of Markdown too), anywhere
            (in the midst of prose too).
        name: A name of its own, so that one run can have the evaluator several times.
    """

def json_schema(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    json_schema: dict[str, Any] | None = None,
    where: Literal["whole", "fenced", "anywhere"] = "fenced",
    timeout_s: float = 2.0,
    name: str = "",
) -> MetricChoice:
    """Checks the answer's JSON against a JSON Schema, and says at which paths it is wrong.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        json_schema: The schema of all answers, as JSON. A row's own, in its metadata under the key json_schema,
            goes before it.
        where: Where JSON may stand: whole (nothing else is there), fenced (in a fence of Markdown too), anywhere
            (in the midst of prose too).
        timeout_s: Seconds that an answer may be checked.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def json_valid(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    where: Literal["whole", "fenced", "anywhere"] = "whole",
    kind: Literal["any", "object", "array", "object_or_array"] = "object_or_array",
    only_expected: bool = False,
    name: str = "",
) -> MetricChoice:
    """Reads the answer as JSON.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        where: Where JSON may stand: whole (nothing else is there), fenced (in a fence of Markdown too), anywhere
            (in the midst of prose too).
        kind: What the JSON value must be.
        only_expected: Look only at rows whose expected answer is JSON; so it is where nobody named json_valid.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def knowledge_retention(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    custom_eval_judge_config_key: str = "",
    name: str = "",
) -> MetricChoice:
    """Share of the facts told by the user that an answer does not forget.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def language(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    expected: Sequence[str] = (),
    certainty: float = 0.9,
    name: str = "",
) -> MetricChoice:
    """Is an answer in the language of its question, or in one of the languages that were asked for?

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        expected: Codes (ISO 639-1) of the languages that answers may be in; empty: the question's.
        certainty: Probability from which a language counts as found.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def language_mismatch(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    custom_eval_judge_config_key: str = "",
    name: str = "",
) -> MetricChoice:
    """Checks whether the question and the answer are in the same language.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def latency(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    name: str = "",
) -> MetricChoice:
    """Duration of an answer, in seconds: the mean, the median, and the 95th and 99th percentile.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def length(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    min_words: int | None = None,
    max_words: int | None = None,
    min_characters: int | None = None,
    max_characters: int | None = None,
    min_sentences: int | None = None,
    max_sentences: int | None = None,
    name: str = "",
) -> MetricChoice:
    """Numbers of words, characters and sentences of an answer, and whether they are within limits.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        min_words: Limit of an answer's length; empty: none.
        max_words: Limit of an answer's length; empty: none.
        min_characters: Limit of an answer's length; empty: none.
        max_characters: Limit of an answer's length; empty: none.
        min_sentences: Limit of an answer's length; empty: none.
        max_sentences: Limit of an answer's length; empty: none.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def levenshtein(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    ignore_case: bool = False,
    ignore_punctuation: bool = False,
    ignore_articles: bool = False,
    ignore_white_space: bool = False,
    same_dates: bool = False,
    squad: bool = False,
    unicode_form: Literal["as_is", "NFC", "NFKC"] = "NFC",
    name: str = "",
) -> MetricChoice:
    """Compares the answer with the expected one by characters.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        ignore_case: Upper and lower case are the same.
        ignore_punctuation: Leave out punctuation around words.
        ignore_articles: Leave out the words a, an and the.
        ignore_white_space: Any white space is one space, and none at the beginning and the end.
        same_dates: A day with a month's name is the same in any order.
        squad: Fold as SQuAD's script does: all ASCII punctuation is left out, signs and decimal points too, and all
            articles.
        unicode_form: Unicode's normal form to bring texts into first: NFC, NFKC, or as_is for none.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def looping_detection(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    name: str = "",
) -> MetricChoice:
    """Looping: sentences, substrings and bytes that repeat themselves in the answer.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def meteor(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    alpha: float = 0.9,
    beta: float = 3.0,
    gamma: float = 0.5,
    synonyms: bool = True,
    name: str = "",
) -> MetricChoice:
    """METEOR: the words that an answer shares with the expected one, by form, stem or meaning, less for odd order.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        alpha: Weight of precision in the harmonic mean.
        beta: Exponent of the penalty for order.
        gamma: Greatest penalty for order.
        synonyms: Whether words match by meaning too, where NLTK's WordNet data is installed.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def number_match(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    relative_tolerance: float | None = None,
    absolute_tolerance: float = 0.0,
    which: Literal["any", "last", "only"] = "any",
    decimal: Literal["point", "comma"] = "point",
    only_numbers: bool = False,
    units: bool = True,
    name: str = "",
) -> MetricChoice:
    """Reads the numbers of answer and expected answer, and compares them within a tolerance.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        relative_tolerance: Allowed difference as a share of the expected number: 0.01 is 1 %. Without one whole
            numbers must be equal, and others may differ by a millionth.
        absolute_tolerance: Allowed difference as a number; the larger of the two tolerances counts.
        which: Which numbers of the answer count: any of them, the last one (as after a calculation), or only one
            may be there.
        decimal: What stands before the decimals: a point (1,234.5) or a comma (1.234,5).
        only_numbers: Look only at rows of which an expected answer is a number and nothing else but its unit; so it
            is where nobody named number_match.
        units: Units and currencies of both numbers count: 5 km is 5000 m and is not 5 miles.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def pass_k(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    ignore: Sequence[str] = (),
    others_allowed: bool = False,
    k: int = 2,
    passed_key: str = "passed",
    name: str = "",
) -> MetricChoice:
    """Reliability over trials: pass^k, the chance that k trials of a case all pass, and pass@k, that one of k does.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        ignore: Members that do not count, by name at any depth (`updated_at`) or by path (`orders.7.eta`).
        others_allowed: Whether the state may have members beside the expected ones, as in a large database.
        k: How many trials must all pass, or one of them; cases with fewer trials are left out.
        passed_key: Key of the metadata that says whether a trial passed, if it does: true, or 1 and more.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def perplexity(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    perplexity_model: str | None = None,
    name: str = "",
) -> MetricChoice:
    """Measures how well a language model predicts the answer; lower means more predictable.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        perplexity_model: Language model: a Hugging Face id, optionally ID@REVISION, or a directory. By default
            distilgpt2.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def pii_leakage(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    evaluate_retrieved_context: bool = True,
    rules: Sequence[str] = ...,
    exclude_documentation_examples: bool = True,
    allow: Sequence[str] = (),
    ner_model: str | None = None,
    ner_types: Sequence[str] = ...,
    ner_probability: float = 0.5,
    name: str = "",
) -> MetricChoice:
    """Looks for formatted personal data in the answer and in the retrieved context.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        evaluate_retrieved_context: Scan the retrieved context too; a row fails when its context does.
        rules: Rules to apply, by name; 'default' stands for the default ones, 'all' for all.
        exclude_documentation_examples: Leave out well-known examples: addresses at example.com, test card numbers,
            YOUR_API_KEY.
        allow: What is no leak wherever it stands: your public address and telephone number, or a domain as
            @acme.com. What a row's expected answer holds is none in that row.
        ner_model: Token classifier that looks for names and addresses too: a Hugging Face id, optionally
            ID@REVISION, or a directory. By default rules only.
        ner_types: What of the model's findings is personal data: 'person', 'address', 'location', 'organization',
            or another type as the model calls it, in lower case.
        ner_probability: Least probability that the model gives each word of a name.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def plan_adherence(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    custom_eval_judge_config_key: str = "",
    name: str = "",
) -> MetricChoice:
    """Share of the steps of an agent's own plan that it followed.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def policy(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    custom_eval_judge_config_key: str = "",
    rules: Sequence[str] = (),
    name: str = "",
) -> MetricChoice:
    """Share of the rules touched by a conversation that the assistant kept.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
        rules: Rules that the assistant has to keep in all cases, beside those of a scenario.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def quoted_spans(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    min_words: int = 3,
    similarity: float = 1.0,
    name: str = "",
) -> MetricChoice:
    """Looks up the answer's quotations in the retrieved contexts: a quotation that stands nowhere is made up.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        min_words: Words that a quotation has at least; shorter ones are left out.
        similarity: Least similarity (RapidFuzz partial ratio) to a stretch of a context; 1 asks for equal words.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def readability(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    name: str = "",
) -> MetricChoice:
    """Readability of an English answer: Flesch's reading ease, Flesch and Kincaid's grade, words per sentence.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def reference_recall(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    max_words: int = 12,
    name: str = "",
) -> MetricChoice:
    """Looks for what a short expected answer says in the answer: words, names, numbers, dates, yes or no.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        max_words: Expected answers of more words are passed over: they say too much.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def refusal(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    refuse_categories: Sequence[str] = (),
    name: str = "",
) -> MetricChoice:
    """Share of answers that decline to do what they were asked, by the phrases that refusals begin with.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        refuse_categories: Categories of the cases that ought to be refused, while all others ought to be answered;
            empty: refusals are counted, and none is right or wrong.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def regex(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    pattern: str = "",
    match: Literal["search", "whole", "absent"] = "search",
    name: str = "",
) -> MetricChoice:
    """Matches the answer against a regular expression: one for all answers, or one of each row.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        pattern: The pattern, in the syntax of Python's re; flags stand in it, as in (?i). A row's own, in its
            metadata under the key regex, goes before it.
        match: Where it must match: somewhere (search), the whole answer (whole), or nowhere (absent).
        name: A name of its own, so that one run can have the evaluator several times.
    """

def role_adherence(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    custom_eval_judge_config_key: str = "",
    name: str = "",
) -> MetricChoice:
    """Whether an answer stays in the role that the assistant is to have.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def rouge(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    use_stemmer: bool = False,
    name: str = "",
) -> MetricChoice:
    """ROUGE: the F1 of words (ROUGE-1), pairs of words (ROUGE-2) and the longest common subsequence (ROUGE-L).

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        use_stemmer: Cut English words of more than three letters to their stems before comparing.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def sensitive_data_leakage(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    evaluate_retrieved_context: bool = True,
    rules: Sequence[str] = ...,
    exclude_documentation_examples: bool = True,
    allow: Sequence[str] = (),
    name: str = "",
) -> MetricChoice:
    """Looks for formatted secrets in the answer and in the retrieved context.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        evaluate_retrieved_context: Scan the retrieved context too; a row fails when its context does.
        rules: Rules to apply, by name; 'default' stands for the default ones, 'all' for all.
        exclude_documentation_examples: Leave out well-known examples: addresses at example.com, test card numbers,
            YOUR_API_KEY.
        allow: What is no leak wherever it stands: your public address and telephone number, or a domain as
            @acme.com. What a row's expected answer holds is none in that row.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def sexism(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    custom_eval_judge_config_key: str = "",
    evaluate_retrieved_context: bool = False,
    name: str = "",
) -> MetricChoice:
    """Checks question and answer for sexist language, gender-based stereotypes included.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
        evaluate_retrieved_context: Check the retrieved context too, with a call of its own; a row fails when it
            does.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def sql_equivalence(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    dialect: str = "",
    sql_schema: str | dict[str, dict[str, str]] = "",
    sql_rows: dict[str, list[Any]] = {},
    timeout_s: float = 5.0,
    memory_mb: int = 256,
    name: str = "",
) -> MetricChoice:
    """Compares the answer's query with the expected one: by what they return, or by their normal forms.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        dialect: Dialect of the queries, as sqlglot calls it (postgres, mysql, sqlite, bigquery, tsql …); empty for
            what most have in common.
        sql_schema: Tables of all rows, as under the metadata's key sql_schema, which goes before it.
        sql_rows: Rows of the tables, as under the metadata's key sql_rows, which goes before it.
        timeout_s: Seconds that a query may run.
        memory_mb: Memory that a query may take, in megabytes.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def step_alignment(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    embedding_model: str | None = None,
    extraction: Literal["regex", "judge", "both"] = "regex",
    similarity_threshold: float = 0.7,
    sentence_level_metrics: bool = True,
    h2ogpte_connection_config_key: str = "",
    h2ogpte_llm_model_name: str = "",
    name: str = "",
) -> MetricChoice:
    """Compares the steps of the answer with those of the retrieved context, which are taken for right.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        embedding_model: Embedding model of this evaluator: a Hugging Face id, optionally ID@REVISION, a directory,
            or 'offline'. Without it the run's embedder is used, and without that this evaluator's own default.
        extraction: How steps are found: by regular expressions, by a judge, or by both, which makes all procedures
            that either finds candidates.
        similarity_threshold: Cosine similarity from which on two steps are the same.
        sentence_level_metrics: Show what became of each step of the answer, beside the counts.
        h2ogpte_connection_config_key: Key of the judge that finds steps; the run's default judge without one.
        h2ogpte_llm_model_name: Key of the judge, where h2ogpte_connection_config_key names none.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def step_efficiency(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    read_only_tools: Sequence[str] = (),
    name: str = "",
) -> MetricChoice:
    """Efficiency of an agent's steps: the number of expected calls over those made, and calls made for nothing.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        read_only_tools: Tools that change nothing, beside those that the dataset marks as `read_only`: extra calls
            of them cost nothing.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def stereotypes(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    custom_eval_judge_config_key: str = "",
    stereotype_threshold: float = 5.0,
    name: str = "",
) -> MetricChoice:
    """Checks whether the answer adds information about gender or race to which the question does not refer.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
        stereotype_threshold: Score from 0 to 10 from which on an answer counts as stereotyped.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def summarization_completeness_faithfulness(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    embedding_model: str | None = None,
    nli_model: str | None = None,
    conv_weights: str | None = None,
    zero_shot: Literal["difference", "package", "entailment"] = "difference",
    seed: int = 42,
    max_pairs: int = 20000,
    name: str = "",
) -> MetricChoice:
    """Measures a summary (the answer) against the text that was to be summarized (the question), by sentences.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        embedding_model: Embedding model of this evaluator: a Hugging Face id, optionally ID@REVISION, a directory,
            or 'offline'. Without it the run's embedder is used, and without that this evaluator's own default.
        nli_model: Model for natural language inference: a Hugging Face id, optionally ID@REVISION, or a directory.
            By default tals/albert-xlarge-vitaminc-mnli, for which SummaC Conv was trained.
        conv_weights: Weights of SummaC Conv: a Hugging Face id, or a directory with
            summac_conv_vitc_sent_perc_e.bin or the same as model.safetensors. By default those of
            tingofurro/summac.
        zero_shot: What SummaC ZS takes from the document for each summary sentence: the greatest difference of
            entailment and contradiction in one sentence, the greatest entailment less the greatest contradiction in
            any sentence as the package summac does ('package'), or the greatest entailment alone.
        seed: Seed of the dimensionality reduction.
        max_pairs: Pairs of a document's and a summary's sentences that are compared for one row, at most; a row
            with more has no faithfulness.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def summarization_judge(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    custom_eval_judge_config_key: str = "",
    name: str = "",
) -> MetricChoice:
    """Checks whether the answer is a good summary of the document that is the question.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def task_state(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    ignore: Sequence[str] = (),
    others_allowed: bool = False,
    name: str = "",
) -> MetricChoice:
    """State that an agent leaves behind: 1 where it is the expected one, 0 where anything differs.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        ignore: Members that do not count, by name at any depth (`updated_at`) or by path (`orders.7.eta`).
        others_allowed: Whether the state may have members beside the expected ones, as in a large database.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def ter(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    normalized: bool = False,
    no_punct: bool = False,
    asian_support: bool = False,
    case_sensitive: bool = False,
    name: str = "",
) -> MetricChoice:
    """Translation edit rate: edits that turn an answer into the expected one, for each 100 words of the latter.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        normalized: Whether punctuation is set apart from words, as Tercom does.
        no_punct: Whether punctuation is left out.
        asian_support: Whether Chinese and Japanese characters count as words; needs normalized.
        case_sensitive: Whether capital and small letters differ.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def text_matching(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    evaluate_retrieved_context: bool = False,
    default_to_expected_answer: bool = False,
    name: str = "",
) -> MetricChoice:
    """Checks an answer, and if asked its retrieved context, against the case's condition.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        evaluate_retrieved_context: Check the retrieved context too; a row fails when its context does.
        default_to_expected_answer: Without a condition, ask for one of the expected answers as a substring of the
            answer.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def tokens(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    tokenizer: str = "",
    name: str = "",
) -> MetricChoice:
    """Tokens sent and received per answer: the means, the medians, and the 95th and 99th percentiles.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        tokenizer: A tokenizer that counts the tokens of answers without a count of their own: a Hugging Face id or
            a directory; empty: such answers are not applicable.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def tool_argument_grounding(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    custom_eval_judge_config_key: str = "",
    name: str = "",
) -> MetricChoice:
    """Share of the calls of tools whose arguments rest on what was said or returned before.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def tool_arguments(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    name: str = "",
) -> MetricChoice:
    """Arguments of tool calls: the share that is as expected, and the share of calls that the tools could take.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def tool_call_f1(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    read_only_tools: Sequence[str] = (),
    arguments: Literal["exact", "superset", "subset", "partial", "ignore"] = "exact",
    order: Literal["any", "kept"] = "any",
    name: str = "",
) -> MetricChoice:
    """Tool calls of a conversation against the expected ones: precision, recall and F1 of the best matching.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        read_only_tools: Tools that change nothing, beside those that the dataset marks as `read_only`: extra calls
            of them cost nothing.
        arguments: How arguments must agree: `exact`; `superset`, all that are expected and maybe others; `subset`,
            none but those that are expected; `partial`, by the share of equal arguments; `ignore`, not.
        order: Whether calls match in `any` order, or only where the order of the expected ones is `kept`.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def tool_errors(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    name: str = "",
) -> MetricChoice:
    """Errors of tools in a conversation: the share of calls that fail, and whether the agent recovers from them.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def tool_output_use(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    custom_eval_judge_config_key: str = "",
    name: str = "",
) -> MetricChoice:
    """Share of the answer's claims that the turn's tools or retrieved texts bear out.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def tool_permission(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    allowed: Sequence[str] = (),
    denied: Sequence[str] = (),
    denied_arguments: dict[str, dict[str, list[str | int | float | bool | None]]] = {},
    needs_confirmation: Sequence[str] = (),
    name: str = "",
) -> MetricChoice:
    """Permissions of an agent: 1 where every call of a conversation was allowed, 0 where one was not.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        allowed: Tools that may be called, and no others; empty: all that are not denied.
        denied: Tools that may never be called.
        denied_arguments: Values that arguments may not have, by tool and argument; `*` stands for every tool. Texts
            are equal without regard to case.
        needs_confirmation: Tools that may be called only when the user's last message before says yes.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def tool_selection(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    custom_eval_judge_config_key: str = "",
    name: str = "",
) -> MetricChoice:
    """Share of the calls of tools that were the right ones to make.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def tool_trajectory_match(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    read_only_tools: Sequence[str] = (),
    arguments: Literal["exact", "superset", "subset", "ignore"] = "exact",
    name: str = "",
) -> MetricChoice:
    """Trajectory match: whether the calls of a conversation are the expected ones, in five senses.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        read_only_tools: Tools that change nothing, beside those that the dataset marks as `read_only`: extra calls
            of them cost nothing.
        arguments: How arguments must agree: `exact`; `superset`, all that are expected and maybe others; `subset`,
            none but those that are expected; `ignore`, not.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def topic_adherence(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    custom_eval_judge_config_key: str = "",
    name: str = "",
) -> MetricChoice:
    """Adherence of an assistant to the topics that it may speak about.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def toxicity(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    toxicity_model: str = "original",
    name: str = "",
) -> MetricChoice:
    """Assesses the level of toxicity in the answer.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        toxicity_model: Detoxify's model: 'original', 'unbiased' or 'multilingual'; or another multi-label
            classifier with the same labels: a Hugging Face id, optionally ID@REVISION, or a directory.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def turn_relevancy(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    custom_eval_judge_config_key: str = "",
    name: str = "",
) -> MetricChoice:
    """Relevance of an answer to what the user says, given what was said before.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def unsupported_numbers(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    name: str = "",
) -> MetricChoice:
    """Looks for numbers of the answer in contexts, question and expected answer, whatever their form.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        name: A name of its own, so that one run can have the evaluator several times.
    """

def user_frustration(
    *,
    metric_threshold: float | dict[str, float] | None = None,
    save_llm_result: bool = True,
    min_test_cases: int = 0,
    custom_eval_judge_config_key: str = "",
    name: str = "",
) -> MetricChoice:
    """Degree of the user's frustration with the assistant, by what they say.

    Args:
        metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
        save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
        min_test_cases: Report a problem when fewer rows were scored.
        custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
        name: A name of its own, so that one run can have the evaluator several times.
    """

class bfcl:
    """Evaluators whose ids begin with bfcl."""

    @staticmethod
    def ast(
        *,
        metric_threshold: float | dict[str, float] | None = None,
        save_llm_result: bool = True,
        min_test_cases: int = 0,
        name: str = "",
    ) -> MetricChoice:
        """Tool calls as the Berkeley Function Calling Leaderboard checks them by their syntax: valid or not.

        Args:
            metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
            save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
            min_test_cases: Report a problem when fewer rows were scored.
            name: A name of its own, so that one run can have the evaluator several times.
        """

class databricks:
    """Evaluators whose ids begin with databricks."""

    @staticmethod
    def chunk_relevance(
        *,
        metric_threshold: float | dict[str, float] | None = None,
        save_llm_result: bool = True,
        min_test_cases: int = 0,
        custom_eval_judge_config_key: str = "",
        name: str = "",
    ) -> MetricChoice:
        """Share of the retrieved chunks that are relevant to the question.

        Args:
            metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
            save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
            min_test_cases: Report a problem when fewer rows were scored.
            custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
            name: A name of its own, so that one run can have the evaluator several times.
        """

    @staticmethod
    def context_sufficiency(
        *,
        metric_threshold: float | dict[str, float] | None = None,
        save_llm_result: bool = True,
        min_test_cases: int = 0,
        custom_eval_judge_config_key: str = "",
        name: str = "",
    ) -> MetricChoice:
        """Sufficiency of the retrieved context to produce the expected answer.

        Args:
            metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
            save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
            min_test_cases: Report a problem when fewer rows were scored.
            custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
            name: A name of its own, so that one run can have the evaluator several times.
        """

    @staticmethod
    def correctness(
        *,
        metric_threshold: float | dict[str, float] | None = None,
        save_llm_result: bool = True,
        min_test_cases: int = 0,
        custom_eval_judge_config_key: str = "",
        name: str = "",
    ) -> MetricChoice:
        """Factual accuracy of the answer, and its semantic similarity to the ground truth.

        Args:
            metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
            save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
            min_test_cases: Report a problem when fewer rows were scored.
            custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
            name: A name of its own, so that one run can have the evaluator several times.
        """

    @staticmethod
    def custom(
        *,
        metric_threshold: float | dict[str, float] | None = None,
        save_llm_result: bool = True,
        min_test_cases: int = 0,
        custom_eval_judge_config_key: str = "",
        assessment_name: str = "custom",
        assessment_type: Literal["ANSWER", "RETRIEVAL"] = "ANSWER",
        judge_prompt: str = ...,
        rating_threshold: float = 3.0,
        name: str = "",
    ) -> MetricChoice:
        """A judge with a prompt of the user's own, for the answer or for each retrieved chunk.

        Args:
            metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
            save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
            min_test_cases: Report a problem when fewer rows were scored.
            custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
            assessment_name: Name of the assessment in the columns of the Databricks tables.
            assessment_type: What is rated: the ANSWER, or in RETRIEVAL each retrieved chunk.
            judge_prompt: What the judge is asked, with the placeholders {request}, {response} and
                {retrieved_context}; other braces are left as they are. It rates from 1 to 5.
            rating_threshold: Scores from 1 to 5 above this are a "yes", all others a "no".
            name: A name of its own, so that one run can have the evaluator several times.
        """

    @staticmethod
    def document_recall(
        *,
        metric_threshold: float | dict[str, float] | None = None,
        save_llm_result: bool = True,
        min_test_cases: int = 0,
        name: str = "",
    ) -> MetricChoice:
        """Share of the expected documents that are among the retrieved ones.

        Args:
            metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
            save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
            min_test_cases: Report a problem when fewer rows were scored.
            name: A name of its own, so that one run can have the evaluator several times.
        """

    @staticmethod
    def groundedness(
        *,
        metric_threshold: float | dict[str, float] | None = None,
        save_llm_result: bool = True,
        min_test_cases: int = 0,
        custom_eval_judge_config_key: str = "",
        name: str = "",
    ) -> MetricChoice:
        """Factual consistency of the answer with the retrieved context: it is grounded, or hallucinated.

        Args:
            metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
            save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
            min_test_cases: Report a problem when fewer rows were scored.
            custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
            name: A name of its own, so that one run can have the evaluator several times.
        """

    @staticmethod
    def relevance_to_query(
        *,
        metric_threshold: float | dict[str, float] | None = None,
        save_llm_result: bool = True,
        min_test_cases: int = 0,
        custom_eval_judge_config_key: str = "",
        name: str = "",
    ) -> MetricChoice:
        """Relevance of the answer to the question.

        Args:
            metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
            save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
            min_test_cases: Report a problem when fewer rows were scored.
            custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
            name: A name of its own, so that one run can have the evaluator several times.
        """

    @staticmethod
    def safety(
        *,
        metric_threshold: float | dict[str, float] | None = None,
        save_llm_result: bool = True,
        min_test_cases: int = 0,
        custom_eval_judge_config_key: str = "",
        name: str = "",
    ) -> MetricChoice:
        """Safety of the answer: it is free of harmful or toxic content.

        Args:
            metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
            save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
            min_test_cases: Report a problem when fewer rows were scored.
            custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
            name: A name of its own, so that one run can have the evaluator several times.
        """

class deepeval:
    """Evaluators whose ids begin with deepeval."""

    @staticmethod
    def tool_correctness(
        *,
        metric_threshold: float | dict[str, float] | None = None,
        save_llm_result: bool = True,
        min_test_cases: int = 0,
        mode: Literal["default", "ordering", "exact"] = "default",
        input_parameters: bool = False,
        name: str = "",
    ) -> MetricChoice:
        """Tool correctness as DeepEval computes it: the share of the expected tools that were called.

        Args:
            metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
            save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
            min_test_cases: Report a problem when fewer rows were scored.
            mode: DeepEval's `should_consider_ordering` or `should_exact_match`, or neither.
            input_parameters: Whether arguments are compared, as with DeepEval's `ToolCallParams.INPUT_PARAMETERS`.
            name: A name of its own, so that one run can have the evaluator several times.
        """

class llamaindex:
    """Evaluators whose ids begin with llamaindex."""

    @staticmethod
    def correctness(
        *,
        metric_threshold: float | dict[str, float] | None = None,
        save_llm_result: bool = True,
        min_test_cases: int = 0,
        custom_eval_judge_config_key: str = "",
        passing_threshold: float = 4.0,
        name: str = "",
    ) -> MetricChoice:
        """Relevance and correctness of the answer against the reference answer, from 1 to 5.

        Args:
            metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
            save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
            min_test_cases: Report a problem when fewer rows were scored.
            custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
            passing_threshold: An answer passes with this score or more.
            name: A name of its own, so that one run can have the evaluator several times.
        """

    @staticmethod
    def faithfulness(
        *,
        metric_threshold: float | dict[str, float] | None = None,
        save_llm_result: bool = True,
        min_test_cases: int = 0,
        custom_eval_judge_config_key: str = "",
        context_characters: int = 24000,
        name: str = "",
    ) -> MetricChoice:
        """Support of the answer by any of the retrieved contexts: YES or NO.

        Args:
            metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
            save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
            min_test_cases: Report a problem when fewer rows were scored.
            custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
            context_characters: Most characters of context in one call, some four to a token; more contexts take
                more calls.
            name: A name of its own, so that one run can have the evaluator several times.
        """

    @staticmethod
    def retrieval(
        *,
        metric_threshold: float | dict[str, float] | None = None,
        save_llm_result: bool = True,
        min_test_cases: int = 0,
        k: int | None = None,
        granular_hit_rate: bool = False,
        granular_mrr: bool = False,
        name: str = "",
    ) -> MetricChoice:
        """Hit rate, MRR, precision, recall, average precision and NDCG of the retrieved documents.

        Args:
            metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
            save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
            min_test_cases: Report a problem when fewer rows were scored.
            k: Only the first k distinct documents count (precision at k, …); empty: all.
            granular_hit_rate: Hit rate is the share of expected documents found, instead of whether any was.
            granular_mrr: MRR is the mean over all expected documents found, instead of the first one's.
            name: A name of its own, so that one run can have the evaluator several times.
        """

class pairwise:
    """Evaluators whose ids begin with pairwise."""

    @staticmethod
    def preference(
        *,
        metric_threshold: float | dict[str, float] | None = None,
        save_llm_result: bool = True,
        min_test_cases: int = 0,
        custom_eval_judge_config_key: str = "",
        baseline: str = "",
        most_rivals: int = 4,
        criteria: str = ...,
        name: str = "",
    ) -> MetricChoice:
        """Compares two models' answers to the same case: a judge says which is better, asked in both orders.

        Args:
            metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
            save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
            min_test_cases: Report a problem when fewer rows were scored.
            custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
            baseline: Key of a model that all others are compared with, and only with it; by default models are
                compared with each other.
            most_rivals: The most models that each answer is compared with, where there is no baseline. Of more,
                each question has its own, drawn so that all models have as many and all pairs occur.
            criteria: What makes an answer better, as the judge is told it.
            name: A name of its own, so that one run can have the evaluator several times.
        """

class _ragas:
    """Evaluators whose ids begin with ragas."""

    def __call__(
        self,
        *,
        metric_threshold: float | dict[str, float] | None = None,
        save_llm_result: bool = True,
        min_test_cases: int = 0,
        custom_eval_judge_config_key: str = "",
        embedding_model: str | None = None,
        generated_questions: int = 3,
        name: str = "",
    ) -> MetricChoice:
        """Overall quality of a RAG system's answer: the harmonic mean of four metrics.

        Args:
            metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
            save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
            min_test_cases: Report a problem when fewer rows were scored.
            custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
            embedding_model: Embedding model of this evaluator: a Hugging Face id, optionally ID@REVISION, a directory,
                or 'offline'. Without it the run's embedder is used, and without that this evaluator's own default.
            generated_questions: Questions that the judge generates from the answer.
            name: A name of its own, so that one run can have the evaluator several times.
        """

    @staticmethod
    def tool_call_accuracy(
        *,
        metric_threshold: float | dict[str, float] | None = None,
        save_llm_result: bool = True,
        min_test_cases: int = 0,
        strict_order: bool = True,
        name: str = "",
    ) -> MetricChoice:
        """Tool call accuracy as ragas computes it: equal sequences of tools, then the share of equal arguments.

        Args:
            metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
            save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
            min_test_cases: Report a problem when fewer rows were scored.
            strict_order: Whether the calls must have the order of the expected ones; else both are sorted.
            name: A name of its own, so that one run can have the evaluator several times.
        """

    @staticmethod
    def tool_call_f1(
        *,
        metric_threshold: float | dict[str, float] | None = None,
        save_llm_result: bool = True,
        min_test_cases: int = 0,
        name: str = "",
    ) -> MetricChoice:
        """F1 of tool calls as ragas computes it: of the sets of calls, equal in name and all arguments.

        Args:
            metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
            save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
            min_test_cases: Report a problem when fewer rows were scored.
            name: A name of its own, so that one run can have the evaluator several times.
        """

ragas: _ragas

class rgb:
    """Evaluators whose ids begin with rgb."""

    @staticmethod
    def counterfactual_robustness(
        *,
        metric_threshold: float | dict[str, float] | None = None,
        save_llm_result: bool = True,
        min_test_cases: int = 0,
        scorer: Literal["space", "official"] = "space",
        strict: bool = False,
        refusals_correct: bool = False,
        name: str = "",
    ) -> MetricChoice:
        """Measures how often a system notices that its documents are wrong, and how often it gives the right answer
        then.

        Args:
            metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
            save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
            min_test_cases: Report a problem when fewer rows were scored.
            scorer: 'space': the RGB application's rules (key words; containment or 80 % of the words). 'official':
                the paper's (every part must stand in the answer; the prompt's own sentences).
            strict: With 'space': only an answer that equals an expected one is right.
            refusals_correct: With 'official': a refusal counts as a correction, as in the benchmark's evalue.py but
                not in the paper's figures.
            name: A name of its own, so that one run can have the evaluator several times.
        """

    @staticmethod
    def information_integration(
        *,
        metric_threshold: float | dict[str, float] | None = None,
        save_llm_result: bool = True,
        min_test_cases: int = 0,
        scorer: Literal["space", "official"] = "space",
        strict: bool = False,
        name: str = "",
    ) -> MetricChoice:
        """Measures how often the answer is right when its parts stand in different documents.

        Args:
            metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
            save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
            min_test_cases: Report a problem when fewer rows were scored.
            scorer: 'space': the RGB application's rules (key words; containment or 80 % of the words). 'official':
                the paper's (every part must stand in the answer; the prompt's own sentences).
            strict: With 'space': only an answer that equals an expected one is right.
            name: A name of its own, so that one run can have the evaluator several times.
        """

    @staticmethod
    def negative_rejection(
        *,
        metric_threshold: float | dict[str, float] | None = None,
        save_llm_result: bool = True,
        min_test_cases: int = 0,
        scorer: Literal["space", "official"] = "space",
        strict: bool = False,
        name: str = "",
    ) -> MetricChoice:
        """Measures how often a system refuses to answer when none of its documents contains the answer.

        Args:
            metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
            save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
            min_test_cases: Report a problem when fewer rows were scored.
            scorer: 'space': the RGB application's rules (key words; containment or 80 % of the words). 'official':
                the paper's (every part must stand in the answer; the prompt's own sentences).
            strict: With 'space': only an answer that equals an expected one is right.
            name: A name of its own, so that one run can have the evaluator several times.
        """

    @staticmethod
    def noise_robustness(
        *,
        metric_threshold: float | dict[str, float] | None = None,
        save_llm_result: bool = True,
        min_test_cases: int = 0,
        scorer: Literal["space", "official"] = "space",
        strict: bool = False,
        name: str = "",
    ) -> MetricChoice:
        """Measures how often the answer is right although some of the documents are noise.

        Args:
            metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
            save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
            min_test_cases: Report a problem when fewer rows were scored.
            scorer: 'space': the RGB application's rules (key words; containment or 80 % of the words). 'official':
                the paper's (every part must stand in the answer; the prompt's own sentences).
            strict: With 'space': only an answer that equals an expected one is right.
            name: A name of its own, so that one run can have the evaluator several times.
        """

class valor:
    """Evaluators whose ids begin with valor."""

    @staticmethod
    def answer_correctness(
        *,
        metric_threshold: float | dict[str, float] | None = None,
        save_llm_result: bool = True,
        min_test_cases: int = 0,
        custom_eval_judge_config_key: str = "",
        name: str = "",
    ) -> MetricChoice:
        """F1 of the statements that an answer and an expected answer share.

        Args:
            metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
            save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
            min_test_cases: Report a problem when fewer rows were scored.
            custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
            name: A name of its own, so that one run can have the evaluator several times.
        """

    @staticmethod
    def answer_relevance(
        *,
        metric_threshold: float | dict[str, float] | None = None,
        save_llm_result: bool = True,
        min_test_cases: int = 0,
        custom_eval_judge_config_key: str = "",
        name: str = "",
    ) -> MetricChoice:
        """Share of the answer's statements that are relevant to the question.

        Args:
            metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
            save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
            min_test_cases: Report a problem when fewer rows were scored.
            custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
            name: A name of its own, so that one run can have the evaluator several times.
        """

    @staticmethod
    def bias(
        *,
        metric_threshold: float | dict[str, float] | None = None,
        save_llm_result: bool = True,
        min_test_cases: int = 0,
        custom_eval_judge_config_key: str = "",
        name: str = "",
    ) -> MetricChoice:
        """Share of the answer's opinions that are biased; lower is better.

        Args:
            metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
            save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
            min_test_cases: Report a problem when fewer rows were scored.
            custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
            name: A name of its own, so that one run can have the evaluator several times.
        """

    @staticmethod
    def bleu(
        *,
        metric_threshold: float | dict[str, float] | None = None,
        save_llm_result: bool = True,
        min_test_cases: int = 0,
        bleu_weights: Sequence[float] = (0.25, 0.25, 0.25, 0.25),
        name: str = "",
    ) -> MetricChoice:
        """BLEU of Valor: the weighted precision of the answer's n-grams in the acceptable answers.

        Args:
            metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
            save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
            min_test_cases: Report a problem when fewer rows were scored.
            bleu_weights: Weights of 1-grams, 2-grams, ...; they sum to 1.
            name: A name of its own, so that one run can have the evaluator several times.
        """

    @staticmethod
    def classification(
        *,
        metric_threshold: float | dict[str, float] | None = None,
        save_llm_result: bool = True,
        min_test_cases: int = 0,
        average: Literal["macro", "micro", "weighted"] = "macro",
        label_map: Sequence[Sequence[Sequence[str]]] = (),
        pr_curve_max_examples: int = 1,
        score_threshold: float = 0.0,
        valor_compat: bool = False,
        name: str = "",
    ) -> MetricChoice:
        """Classification of data items whose ground truth and predictions are labels with keys (Valor).

        Args:
            metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
            save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
            min_test_cases: Report a problem when fewer rows were scored.
            average: How precision, recall and F1 of the labels of one key are averaged, as in scikit-learn. Values
                by label are in the details of the report.
            label_map: Labels that count as another, on both sides: {"siamese": "cat"}. A label of another key than
                "class" is written "key:value", or as the pair ["key", "value"] in a list of pairs.
            pr_curve_max_examples: How many items the detailed precision-recall curve names for each kind of
                observation.
            score_threshold: Least score of the best label; below it the item counts as one without a prediction.
            valor_compat: ROC AUC as Valor computes it: its curve lacks the origin, which loses the area under a tie
                at the top, and items for which a label was not predicted are left out of its curve.
            name: A name of its own, so that one run can have the evaluator several times.
        """

    @staticmethod
    def context_precision(
        *,
        metric_threshold: float | dict[str, float] | None = None,
        save_llm_result: bool = True,
        min_test_cases: int = 0,
        custom_eval_judge_config_key: str = "",
        name: str = "",
    ) -> MetricChoice:
        """Mean precision at the ranks of the contexts that are useful for the expected answer.

        Args:
            metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
            save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
            min_test_cases: Report a problem when fewer rows were scored.
            custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
            name: A name of its own, so that one run can have the evaluator several times.
        """

    @staticmethod
    def context_recall(
        *,
        metric_threshold: float | dict[str, float] | None = None,
        save_llm_result: bool = True,
        min_test_cases: int = 0,
        custom_eval_judge_config_key: str = "",
        name: str = "",
    ) -> MetricChoice:
        """Share of an expected answer's statements that can be attributed to the retrieved contexts.

        Args:
            metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
            save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
            min_test_cases: Report a problem when fewer rows were scored.
            custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
            name: A name of its own, so that one run can have the evaluator several times.
        """

    @staticmethod
    def context_relevance(
        *,
        metric_threshold: float | dict[str, float] | None = None,
        save_llm_result: bool = True,
        min_test_cases: int = 0,
        custom_eval_judge_config_key: str = "",
        name: str = "",
    ) -> MetricChoice:
        """Share of the retrieved contexts that are relevant to the question.

        Args:
            metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
            save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
            min_test_cases: Report a problem when fewer rows were scored.
            custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
            name: A name of its own, so that one run can have the evaluator several times.
        """

    @staticmethod
    def faithfulness(
        *,
        metric_threshold: float | dict[str, float] | None = None,
        save_llm_result: bool = True,
        min_test_cases: int = 0,
        custom_eval_judge_config_key: str = "",
        name: str = "",
    ) -> MetricChoice:
        """Share of the answer's claims that the retrieved contexts imply.

        Args:
            metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
            save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
            min_test_cases: Report a problem when fewer rows were scored.
            custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
            name: A name of its own, so that one run can have the evaluator several times.
        """

    @staticmethod
    def hallucination(
        *,
        metric_threshold: float | dict[str, float] | None = None,
        save_llm_result: bool = True,
        min_test_cases: int = 0,
        custom_eval_judge_config_key: str = "",
        name: str = "",
    ) -> MetricChoice:
        """Share of the retrieved contexts that the answer contradicts; lower is better.

        Args:
            metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
            save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
            min_test_cases: Report a problem when fewer rows were scored.
            custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
            name: A name of its own, so that one run can have the evaluator several times.
        """

    @staticmethod
    def object_detection(
        *,
        metric_threshold: float | dict[str, float] | None = None,
        save_llm_result: bool = True,
        min_test_cases: int = 0,
        method: Literal["valor", "coco"] = "valor",
        iou_thresholds_to_compute: Sequence[float] = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95),
        iou_thresholds_to_return: Sequence[float] = (0.5, 0.75),
        recall_score_threshold: float = 0.0,
        pr_curve_iou_threshold: float = 0.5,
        pr_curve_max_examples: int = 1,
        confusion_score_threshold: float = 0.5,
        max_detections: int | None = None,
        convert_annotations_to_type: Literal["box", "polygon", "raster"] | None = None,
        label_map: Sequence[Sequence[Sequence[str]]] = (),
        name: str = "",
    ) -> MetricChoice:
        """Object detection and instance segmentation: average precision and recall of labelled boxes, polygons and
        masks.

        Args:
            metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
            save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
            min_test_cases: Report a problem when fewer rows were scored.
            method: Rules that decide what is found: 'valor' (a prediction can only find the ground truth that it
                overlaps most) or 'coco' (it finds the best one that is still free; crowds are ignored; the 100 most
                confident predictions of an image and label count).
            iou_thresholds_to_compute: IoU thresholds that are averaged over.
            iou_thresholds_to_return: IoU thresholds whose AP and mAP are listed, of those that are computed; the
                metrics map and ap are those of the first one.
            recall_score_threshold: Predictions with a lower score find nothing, for AR and mAR.
            pr_curve_iou_threshold: IoU threshold of the curves, the confusion matrix and the examples.
            pr_curve_max_examples: Most examples of each kind of error, for each label.
            confusion_score_threshold: Least score of a prediction in the confusion matrix.
            max_detections: Only the most confident predictions of an image and label count, that many; 0: all. By
                default all with method valor, 100 with method coco.
            convert_annotations_to_type: Compare everything as this type of geometry. By default everything in an
                image is converted to the least detailed type in it.
            label_map: Labels that count as another, on both sides: {"siamese": "cat"}. A label of another key than
                "class" is written "key:value", or as the pair ["key", "value"] in a list of pairs.
            name: A name of its own, so that one run can have the evaluator several times.
        """

    @staticmethod
    def rouge(
        *,
        metric_threshold: float | dict[str, float] | None = None,
        save_llm_result: bool = True,
        min_test_cases: int = 0,
        rouge_types: Sequence[str] = ...,
        rouge_use_stemmer: bool = False,
        name: str = "",
    ) -> MetricChoice:
        """ROUGE of Valor: the F1 of shared words, pairs of words and common subsequences.

        Args:
            metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
            save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
            min_test_cases: Report a problem when fewer rows were scored.
            rouge_types: Which of rouge1 to rouge9, rougeL and rougeLsum to compute.
            rouge_use_stemmer: Cut English words of more than three letters to their stems before comparing.
            name: A name of its own, so that one run can have the evaluator several times.
        """

    @staticmethod
    def semantic_segmentation(
        *,
        metric_threshold: float | dict[str, float] | None = None,
        save_llm_result: bool = True,
        min_test_cases: int = 0,
        label_map: Sequence[Sequence[Sequence[str]]] = (),
        name: str = "",
    ) -> MetricChoice:
        """Semantic segmentation: intersection over union of the regions of each label, over the whole dataset.

        Args:
            metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
            save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
            min_test_cases: Report a problem when fewer rows were scored.
            label_map: Labels that count as another, on both sides: {"siamese": "cat"}. A label of another key than
                "class" is written "key:value", or as the pair ["key", "value"] in a list of pairs.
            name: A name of its own, so that one run can have the evaluator several times.
        """

    @staticmethod
    def summary_coherence(
        *,
        metric_threshold: float | dict[str, float] | None = None,
        save_llm_result: bool = True,
        min_test_cases: int = 0,
        custom_eval_judge_config_key: str = "",
        name: str = "",
    ) -> MetricChoice:
        """Rates from 1 to 5 how well a summary hits the key points of a text and hangs together.

        Args:
            metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
            save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
            min_test_cases: Report a problem when fewer rows were scored.
            custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
            name: A name of its own, so that one run can have the evaluator several times.
        """

    @staticmethod
    def toxicity(
        *,
        metric_threshold: float | dict[str, float] | None = None,
        save_llm_result: bool = True,
        min_test_cases: int = 0,
        custom_eval_judge_config_key: str = "",
        name: str = "",
    ) -> MetricChoice:
        """Share of the answer's opinions that are toxic; lower is better.

        Args:
            metric_threshold: Threshold of the primary metric, or thresholds by metric key, instead of the defaults.
            save_llm_result: Keep the rows with their scores in the evaluator's results, not only the aggregates.
            min_test_cases: Report a problem when fewer rows were scored.
            custom_eval_judge_config_key: Key of the judge to use, where the evaluator asks one.
            name: A name of its own, so that one run can have the evaluator several times.
        """
