"""The stable codes of errors: what each means, and what to do. ``docs/errors.md`` is made of them.

A code names a cause, so several places may raise it. Codes are never reused or renumbered: scripts, logs and search
engines know them. New causes are added at the end of their area.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

AREAS: Final = {
    "CONFIG": "Options and configuration files",
    "DATA": "Datasets",
    "STORE": "The store and its runs",
    "LEDGER": "The ledger of calls",
    "QUERY": "Looking into runs",
    "PLAN": "Choosing what to evaluate",
    "JUDGE": "Judges",
    "STOP": "Stopping before all is judged",
    "MODEL": "Local models and their weights",
    "RUN": "Runs",
    "WORKER": "Workers",
    "LABEL": "People's labels",
    "COMPARE": "Comparing",
    "COLLECT": "Collecting answers",
    "GENERATE": "Generating suites",
    "PERTURB": "Perturbing suites",
    "RGB": "The benchmark RGB",
    "VERSION": "Model versions",
    "SERVER": "Prefect servers",
    "DEPLOY": "Deployments and the service",
    "DRIFT": "Judges that change",
    "EVENT": "Events and webhooks",
    "NOTIFY": "Notifications",
}
"""What the codes ``LL-AREA-NN`` of each area are about."""


class ErrorCode(Enum):
    """A cause of errors; its value is the code that users see.

    Attributes:
        title: What happened.
        advice: What to do about it.
    """

    title: str
    advice: str

    def __new__(cls, code: str, title: str, advice: str) -> ErrorCode:
        """Make a member of a code, a title and an advice."""
        member = object.__new__(cls)
        member._value_ = code
        member.title = title
        member.advice = advice
        return member

    def __str__(self) -> str:
        return str(self.value)

    @property
    def area(self) -> str:
        """The area of the program that the code belongs to, a key of :data:`AREAS`."""
        return str(self.value).split("-")[1]

    CONFIG_PARAMETER = (
        "LL-CONFIG-01",
        "An evaluator's parameter is unknown, or its value is not allowed.",
        "`leadline evaluators show ID` lists the parameters, their types and their defaults.",
    )
    CONFIG_OPTION = (
        "LL-CONFIG-02",
        "An argument or option of the command is missing, or its value makes no sense.",
        "The message names it; `leadline COMMAND --help` shows what it takes.",
    )
    CONFIG_FILE = (
        "LL-CONFIG-03",
        "A configuration file is missing or cannot be read.",
        "Check its path, its permissions and its syntax (TOML or YAML) at the place that the message names.",
    )
    CONFIG_CONTENT = (
        "LL-CONFIG-04",
        "A configuration file holds something that it should not, or lacks something.",
        "Correct the key that the message names; the page on that file lists all keys.",
    )
    CONFIG_SECRET = (
        "LL-CONFIG-05",
        "A key stands in a file, where it could be published.",
        "Put it into an environment variable, and name that variable with `api_key_env`.",
    )
    CONFIG_VARIABLE = (
        "LL-CONFIG-06",
        "An environment variable that is needed is not set, or its value makes no sense.",
        "Set it, for example in the shell or in the service's environment file.",
    )
    CONFIG_PATH = (
        "LL-CONFIG-07",
        "A path begins with `~user`, and there is no such user.",
        "Write the path out.",
    )
    CONFIG_OUTPUT = (
        "LL-CONFIG-08",
        "The output cannot be written there.",
        "Choose an output path other than the input, with an extension that names the format.",
    )
    CONFIG_PACKAGE = (
        "LL-CONFIG-09",
        "An optional package is not installed.",
        "Install the extra that the message names.",
    )
    CONFIG_OUTSIDE = (
        "LL-CONFIG-10",
        "A request from outside names something that only the deployment's own files may name.",
        "Add it to `[service]` of `leadline.toml` where the worker runs, if it is wanted: docs/operations/service.md.",
    )
    CONFIG_PROJECT = (
        "LL-CONFIG-11",
        "A project is unknown, or something was asked for that is not of this process's project.",
        "Name a project of `leadline.toml`; its runs use its own store, team and judges, and no others.",
    )

    DATA_REFUSED = (
        "LL-DATA-01",
        "A dataset has faults and was refused before anything was scored.",
        "Mend the rows and columns that the message lists; nothing was written.",
    )
    DATA_UNREADABLE = (
        "LL-DATA-02",
        "A dataset's file is missing, is empty, or is of no kind that can be read.",
        "Check the path. Datasets are JSON, JSON Lines, CSV or Parquet, in UTF-8.",
    )
    DATA_FORMAT = (
        "LL-DATA-03",
        "The format of a dataset is unknown or was not recognised.",
        "Name it with `--format`; the page on datasets lists the columns of each.",
    )
    DATA_NO_MODEL = (
        "LL-DATA-04",
        "The dataset has no model of this name.",
        "Choose one of those that the message lists.",
    )
    DATA_NO_COLUMN = (
        "LL-DATA-05",
        "The dataset has no column of this name to slice by.",
        "Choose one of those that the message lists.",
    )
    DATA_COLUMNS = (
        "LL-DATA-06",
        "It is not clear which column of a dataset is a field, or a mapping names a field or column that is not there.",
        "Say which with `--map FIELD=COLUMN`; `leadline evaluate --plan` shows what each column is taken for.",
    )

    STORE_FAILED = (
        "LL-STORE-01",
        "The store cannot be read or written.",
        "Check the disk's space and permissions, and try again; what was written before stays usable.",
    )
    STORE_LOCATION = (
        "LL-STORE-02",
        "The address of the store cannot be used.",
        "Give a folder, `s3://BUCKET/PREFIX`, `gs://…` or `az://…`, with `--store` or `LEADLINE_STORE`.",
    )
    STORE_BUCKET = (
        "LL-STORE-03",
        "The bucket of the store is missing or does not answer as it should.",
        "Check the address, the credentials in the environment (such as `AWS_…`), and that the bucket exists.",
    )
    STORE_IN_USE = (
        "LL-STORE-04",
        "The database of a run is in use by another process.",
        "Wait until that process has ended.",
    )
    STORE_NO_RUN = (
        "LL-STORE-05",
        "There is no such run in the store, or its name fits several.",
        "`leadline store runs` lists them; give more of the id, or check `--store`.",
    )
    STORE_NO_RESULTS = (
        "LL-STORE-06",
        "The run has no results, since it was not completed.",
        "`leadline store runs` says how it ended; evaluate the dataset again, which computes only what is missing.",
    )
    STORE_OLD_RUN = (
        "LL-STORE-07",
        "The run was made by another version of Leadline.",
        "Evaluate its dataset again; stored scores are reused.",
    )
    STORE_TAG = (
        "LL-STORE-08",
        "A tag is not in the store, or cannot be one.",
        "`leadline store tag` lists the tags.",
    )
    STORE_NO_DATASET = (
        "LL-STORE-09",
        "The dataset of a run is no longer in the store, or the run does not say which it was.",
        "Evaluate the dataset's file again.",
    )
    STORE_COPY = (
        "LL-STORE-10",
        "Results are complete in the store and could not be copied to where they were asked for.",
        "Copy them from the folder that the message names, or choose another output.",
    )
    STORE_FORMAT = (
        "LL-STORE-11",
        "The store has a format that this version of Leadline does not know.",
        "Update Leadline; `leadline store info` says the format.",
    )
    STORE_BACKUP = (
        "LL-STORE-12",
        "A backup is damaged or not complete, or holds what no backup of a store has.",
        "Take another backup; nothing was restored.",
    )

    LEDGER_LOCATION = (
        "LL-LEDGER-01",
        "The address of the ledger cannot be used.",
        "Set `LEADLINE_LEDGER` to a file or `postgresql://USER:PASSWORD@HOST/DATABASE`, or unset it.",
    )
    LEDGER_FAILED = (
        "LL-LEDGER-02",
        "The ledger cannot be read or written.",
        "Check the file or the database that `LEADLINE_LEDGER` names. No call is made that cannot be put on record.",
    )
    LEDGER_NO_CALL = (
        "LL-LEDGER-03",
        "The ledger has no such call, or its digest fits several.",
        "`leadline judges calls` lists them.",
    )

    QUERY_FAILED = (
        "LL-QUERY-01",
        "The SQL query cannot be read or failed.",
        "The message is the database's own; `leadline store sql --help` names the tables.",
    )
    QUERY_NOT_ALLOWED = (
        "LL-QUERY-02",
        "Only one query that reads is allowed.",
        "Begin with `SELECT` or `FROM`, and give one statement.",
    )
    QUERY_TOO_MANY_RUNS = (
        "LL-QUERY-03",
        "The query needs more large runs than one process may open.",
        "Choose some of them, or raise the limit of open files.",
    )
    QUERY_NO_CASE = (
        "LL-QUERY-04",
        "The run has no such case.",
        "Check the case's key; the message names the nearest.",
    )

    PLAN_NO_EVALUATOR = (
        "LL-PLAN-01",
        "There is no evaluator of this id.",
        "`leadline evaluators list` lists them.",
    )
    PLAN_SAME_ID = (
        "LL-PLAN-02",
        "Two evaluators, formats or other registered parts have the same name.",
        "Rename yours.",
    )
    PLAN_NO_SUITE = (
        "LL-PLAN-03",
        "There is no suite or family of this name.",
        "`leadline evaluators suites` and `leadline evaluators list` list them.",
    )
    PLAN_UNUSED_PARAMETERS = (
        "LL-PLAN-04",
        "Parameters or margins were given for an evaluator that does not run.",
        "Request the evaluator with `-e`, or leave them out.",
    )
    PLAN_NEEDS_JUDGE = (
        "LL-PLAN-05",
        "What was requested asks a judge, and none is named.",
        "Add `--judge MODEL`, or set `LEADLINE_JUDGE`.",
    )
    PLAN_LANGUAGE = (
        "LL-PLAN-06",
        "The language code is none, or the sentence splitter has no data for it.",
        "Give two letters of ISO 639-1, install the data that the message names, or use `--set models.splitter=rules`.",
    )
    PLAN_FILE_CHANGED = (
        "LL-PLAN-07",
        "The file of an evaluator of your own changed while its run was under way.",
        "Start the run again; what other evaluators have scored is reused.",
    )
    PLAN_NO_POLICY = (
        "LL-PLAN-08",
        "There is no policy of that name, and no such file.",
        "`leadline evaluators policy show` lists those that come with Leadline; `--policy` also takes a TOML file.",
    )

    JUDGE_CONFIG = (
        "LL-JUDGE-01",
        "The configuration of a judge cannot be used.",
        "Correct what the message names in `leadline.toml` or in the options.",
    )
    JUDGE_PROVIDER = (
        "LL-JUDGE-02",
        "No provider is known for the judge's model.",
        "Name the provider too, as in `openai/gpt-4o-mini`.",
    )
    JUDGE_UNAVAILABLE = (
        "LL-JUDGE-03",
        "The judge could not be reached or kept failing; its rows are unscored.",
        "Check the address, the network and the quota, then run again: only what is missing is asked.",
    )
    JUDGE_REFUSED = (
        "LL-JUDGE-04",
        "The judge does not answer this call, however often it is asked.",
        "Check the key, the model's name and the length of the texts.",
    )
    JUDGE_TRUNCATED = (
        "LL-JUDGE-05",
        "The judge's reply was cut off at the token limit.",
        "Raise the judge's `max_tokens`.",
    )
    JUDGE_UNPARSEABLE = (
        "LL-JUDGE-06",
        "The judge's reply does not hold the verdict that was asked for, twice.",
        "Look at it with `leadline judges calls`; a stronger judge or a clearer prompt helps.",
    )
    JUDGE_BUDGET = (
        "LL-JUDGE-07",
        "The budget of the run allows no further call; the other rows are unscored.",
        "Raise `--max-cost` or `--max-calls`; calls already paid for are reused.",
    )
    JUDGE_FILE = (
        "LL-JUDGE-08",
        "A judge's file, in YAML or with a prompt, was refused.",
        "Correct the key that the message names; see the page on new evaluators.",
    )
    JUDGE_SEARCH_TOOL = (
        "LL-JUDGE-09",
        "The search tool of a judge cannot be used.",
        "Give `package.module:function`, an http(s) address, or a server that speaks MCP.",
    )
    JUDGE_CANARIES = (
        "LL-JUDGE-10",
        "The file of canaries cannot be used.",
        "Correct `expected_scores` in the row that the message names.",
    )
    JUDGE_PRICE = (
        "LL-JUDGE-11",
        "A limit of cost was given for a judge or a model whose price is unknown.",
        "Give `input_cost_per_token` and `output_cost_per_token` in `leadline.toml` or in the targets file, or use "
        "`--max-calls` instead.",
    )
    JUDGE_NO_FLIPS = (
        "LL-JUDGE-12",
        "--attribute-flips needs perturbed copies that a judge scored; this run has none.",
        "Remove `--attribute-flips`, or give perturbed copies and an evaluator that asks a judge about one answer.",
    )

    STOP_NOTHING_ASKED = (
        "LL-STOP-01",
        "Judging is to stop when something is decided, but nothing is asked.",
        "Give `--fail-on high` or `--against RUN` beside `--stop-when decided`.",
    )
    STOP_NO_JUDGE = (
        "LL-STOP-02",
        "Judging is to stop early, but the run asks no judge.",
        "Name a judge and an evaluator that asks it, or leave `--stop-when` away.",
    )
    STOP_WHOLE_DATASET = (
        "LL-STOP-03",
        "A metric that can fail the gate takes all rows, so that judging cannot stop early.",
        "Use `--stop-when never`, or make the metric information in the policy.",
    )

    MODEL_MISSING = (
        "LL-MODEL-01",
        "Weights that an evaluator needs are not on this machine.",
        "Fetch them: `leadline evaluators models pull ID`.",
    )
    MODEL_LIBRARY = (
        "LL-MODEL-02",
        "The libraries that run models are not installed.",
        "Install the extra `models`, or the one that the message names.",
    )
    MODEL_DEVICE = (
        "LL-MODEL-03",
        "There is no such device on this machine.",
        "Choose `auto`, `cpu`, `cuda`, `cuda:N` or `mps`.",
    )
    MODEL_FETCH = (
        "LL-MODEL-04",
        "Weights could not be fetched.",
        "Check the name and the network, or give a folder that holds the weights.",
    )
    MODEL_DAMAGED = (
        "LL-MODEL-05",
        "Weights are incomplete or altered.",
        "Fetch them again: `leadline evaluators models pull ID`.",
    )
    MODEL_WRONG_KIND = (
        "LL-MODEL-06",
        "A model is not of the kind that the evaluator needs.",
        "Choose the model that the message names, or another of its kind.",
    )
    MODEL_NOT_LOADED = (
        "LL-MODEL-07",
        "A model is here but cannot be loaded.",
        "Check that it was saved by a compatible version of its library.",
    )
    MODEL_NAME = (
        "LL-MODEL-08",
        "The text names no model, or nothing that can be fetched.",
        "Give an id of the hub, `ID@REVISION`, or a folder.",
    )
    MODEL_NOT_A_NUMBER = (
        "LL-MODEL-09",
        "A model gave a result that is not a number.",
        "Choose another precision: `float32`, or `bfloat16` on a GPU.",
    )
    MODEL_MEMORY = (
        "LL-MODEL-10",
        "A single text does not fit into the memory of the device.",
        "Use a smaller model, a 16-bit precision, or a device with more memory.",
    )

    RUN_FAILED = (
        "LL-RUN-01",
        "A step of the run failed.",
        "The message says which; `--debug` shows the traceback.",
    )
    RUN_EVALUATOR = (
        "LL-RUN-02",
        "An evaluator breaks the contract of its base class.",
        "Mend the evaluator: the message says what it declares and does not do.",
    )
    RUN_STOPPED = (
        "LL-RUN-03",
        "The run is ending, so this part of it was not scored.",
        "Run again: only what is missing is computed.",
    )
    RUN_UNEXPECTED = (
        "LL-RUN-04",
        "Leadline hit an error of its own.",
        "Its log, which the message names, has the traceback. Please report it.",
    )
    RUN_HOST = (
        "LL-RUN-05",
        "The machine refused what a run needs: room on a disk, a permission, an open file.",
        "Mend what the message names, and repeat the command: what was finished is kept, and goes on from there.",
    )
    RUN_NOT_MEASURED = (
        "LL-RUN-06",
        "An answer that was to be checked could not be measured, so that nothing can be said of it.",
        "The message has the reason: a judge that cannot be asked, weights that are missing, a budget that is spent.",
    )
    RUN_PUBLISHING = (
        "LL-RUN-07",
        "A section of the report or an output format failed.",
        "Mend it or tell its author, or uninstall its package. Scores are kept: the same command publishes them.",
    )

    WORKER_NONE = (
        "LL-WORKER-01",
        "No worker takes the work of a lane.",
        "Start one: `leadline service worker --pool LANE`, or use `--dispatch inline`.",
    )
    WORKER_DIFFERENT = (
        "LL-WORKER-02",
        "A worker has other code, evaluators, models or another store than the place where the run was planned.",
        "Install the same Leadline with the same extras, and give workers the run's store by the same path.",
    )
    WORKER_LOST = (
        "LL-WORKER-03",
        "A worker was lost, or did not finish in time.",
        "Its chunks are given to others; look at the worker's log, and run again if rows stayed unscored.",
    )

    LABEL_FILE = (
        "LL-LABEL-01",
        "A file of labels cannot be read.",
        "The message names the line and the field.",
    )
    LABEL_SET = (
        "LL-LABEL-02",
        "There is no such set of labels, or its name cannot be one.",
        "`leadline labels list` lists the sets.",
    )
    LABEL_SAMPLE = (
        "LL-LABEL-03",
        "Rows cannot be drawn for labelling.",
        "Choose a metric that the run scored row by row.",
    )

    COMPARE_SIDES = (
        "LL-COMPARE-01",
        "The two sides are the same, name too many or too few runs, or share no model.",
        "Write `leadline compare BASELINE CANDIDATE`, each as `RUN` or `RUN:MODEL`.",
    )
    COMPARE_NO_MODEL = (
        "LL-COMPARE-02",
        "A side has no such model, or the store has no such version of it.",
        "Choose one of those that the message lists.",
    )
    COMPARE_MARGIN = (
        "LL-COMPARE-03",
        "A margin cannot be used.",
        "Give a share from 0 to 1, or `EVALUATOR.METRIC=NUMBER` for a metric that is compared.",
    )
    COMPARE_NO_METRIC = (
        "LL-COMPARE-04",
        "Neither side has the metric.",
        "Choose one of those that the message lists.",
    )
    COMPARE_LEVEL = (
        "LL-COMPARE-05",
        "The level of significance makes no sense.",
        "Give a number over 0 and up to 0.5.",
    )
    COMPARE_NO_SLICE = (
        "LL-COMPARE-06",
        "A run has no slices by this column.",
        "Choose one of those that the message lists, or evaluate the datasets again with `--slice COLUMN`.",
    )

    COLLECT_NO_MODEL = (
        "LL-COLLECT-01",
        "No model was named, or it is in no targets file.",
        "Add `--model MODEL` or `--targets FILE`.",
    )
    COLLECT_TARGETS = (
        "LL-COLLECT-02",
        "A targets file cannot be used.",
        "Correct the table that the message names; see the page on collecting answers.",
    )
    COLLECT_FUNCTION = (
        "LL-COLLECT-03",
        "The Python function under test cannot be imported or is none.",
        "Name it as `package.module:function`; it takes a case and returns its answer.",
    )
    COLLECT_TEMPLATE = (
        "LL-COLLECT-04",
        "An address or body needs a value that is not there.",
        "Give the version with `--model-version`, or set the variable that the message names.",
    )
    COLLECT_NOTHING = (
        "LL-COLLECT-05",
        "No model answered anything; nothing was written.",
        "The message says what the models answered instead.",
    )

    GENERATE_DOCUMENTS = (
        "LL-GENERATE-01",
        "Documents have faults and were refused before anything was asked.",
        "Mend or leave out the files that the message lists.",
    )
    GENERATE_TEXT = (
        "LL-GENERATE-02",
        "The documents hold no text, or too much of it.",
        "Scanned pages need text recognition first; draw some chunks with `--max-chunks N`.",
    )
    GENERATE_CHUNKS = (
        "LL-GENERATE-03",
        "The sizes of chunks make no sense.",
        "Give a smaller overlap, or sizes in characters.",
    )
    GENERATE_NOTHING = (
        "LL-GENERATE-04",
        "No question was generated; nothing was written.",
        "The message says what the judge answered instead.",
    )

    PERTURB_UNKNOWN = (
        "LL-PERTURB-01",
        "There is no such perturbation, variant or intensity, or one was requested twice.",
        "`leadline data perturb --list` lists them.",
    )
    PERTURB_THESAURUS = (
        "LL-PERTURB-02",
        "Synonyms and antonyms need WordNet, which is not on this machine.",
        "Install it as the message says.",
    )
    PERTURB_NOTHING = (
        "LL-PERTURB-03",
        "No copy could be made; nothing was written.",
        "The message says why for each perturbation.",
    )

    RGB_FILE = (
        "LL-RGB-01",
        "A file is none of RGB's by its name, is missing, or fits no testbed or model.",
        "Name it as RGB does (`en_refine.json`), or give `--testbed` and `--model`.",
    )
    RGB_OPTION = (
        "LL-RGB-02",
        "A setting of RGB's test cases makes no sense.",
        "Give shares of noise from 0 to below 1, at least one passage, and a prompt with `documents` and `query`.",
    )
    RGB_RESULTS = (
        "LL-RGB-03",
        "A run has no scores of RGB's test cases, or has its settings already.",
        "Make the cases with `leadline data rgb build`, and evaluate the answers to them.",
    )

    VERSION_ANSWERS = (
        "LL-VERSION-01",
        "The answers that were given are not of this model or version.",
        "Give the answers of the version that is checked.",
    )
    VERSION_TARGET = (
        "LL-VERSION-02",
        "Nothing says how the model is asked.",
        "Name it in a targets file, or give `target.model`.",
    )

    SERVER_NONE = (
        "LL-SERVER-01",
        "There is no Prefect server, or it does not answer.",
        "Set `PREFECT_API_URL`, or keep one on this machine: `leadline service server start`.",
    )
    SERVER_START = (
        "LL-SERVER-02",
        "Prefect's server did not start.",
        "Its log, which the message names, says why.",
    )
    SERVER_RUNNING = (
        "LL-SERVER-03",
        "A server or service runs already, or does not end.",
        "Stop it first, as the message says.",
    )
    SERVER_PORT = (
        "LL-SERVER-04",
        "The port is taken or not allowed.",
        "Choose another with `--port`, or leave it away.",
    )
    SERVER_CERTIFICATE = (
        "LL-SERVER-05",
        "The certificate of Prefect's server is not trusted: its authority is not known, or it is for another host.",
        "Name the authority's file in `PREFECT_API_SSL_CERT_FILE`, and the certificate's host in `PREFECT_API_URL`.",
    )

    DEPLOY_FILE = (
        "LL-DEPLOY-01",
        "The file of deployments cannot be used.",
        "Begin with `leadline service deploy --print > prefect.yaml`, and correct what the message names.",
    )
    DEPLOY_POOL = (
        "LL-DEPLOY-02",
        "A work pool is missing or of another type.",
        "Make Leadline's pools with `leadline service deploy`, or rename yours.",
    )
    DEPLOY_FLOW = (
        "LL-DEPLOY-03",
        "A deployment names no flow, or an automation no deployment.",
        "Correct the entry point or the name in the file.",
    )
    DEPLOY_REFUSED = (
        "LL-DEPLOY-04",
        "Prefect's server refuses a deployment.",
        "The message is the server's own; check that its version fits.",
    )
    DEPLOY_SERVICE = (
        "LL-DEPLOY-05",
        "A part of the service did not start, ended, or is not ready in time.",
        "Its log, which the message names, says why.",
    )
    DEPLOY_POSTGRES = (
        "LL-DEPLOY-06",
        "PostgreSQL is not installed, or cannot keep its data there.",
        "Install it, and give its user access to the folder.",
    )

    DRIFT_ENROLMENT = (
        "LL-DRIFT-01",
        "A judge is not enrolled, or cannot be.",
        "Enrol it with rows that it is to be asked again: `leadline judges enrol JUDGE --probes FILE`.",
    )
    DRIFT_NOT_CHECKED = (
        "LL-DRIFT-02",
        "It could not be checked whether a judge is still the same.",
        "Check that the judge answers, then run the command again: replies that came are not paid for again.",
    )

    EVENT_NOT_SENT = (
        "LL-EVENT-01",
        "The event was not sent, or it is not known whether it arrived.",
        "Check that the server answers, and that `leadline service deploy` made the automations; send it again.",
    )
    EVENT_PAYLOAD = (
        "LL-EVENT-02",
        "The payload of an event does not fit the flow's parameters.",
        "Correct the field that the message names; nothing was sent.",
    )
    EVENT_NOTHING_STARTED = (
        "LL-EVENT-03",
        "The event arrived, but started nothing.",
        "`leadline service events` shows what became of it.",
    )
    EVENT_NOT_AUTHENTIC = (
        "LL-EVENT-04",
        "A webhook's delivery has no valid signature or secret.",
        "Give both sides the same secret, and check their clocks.",
    )
    EVENT_NOT_UNDERSTOOD = (
        "LL-EVENT-05",
        "A webhook's delivery has not the shape that its sender documents.",
        "Check that the registry sends model versions to this address.",
    )

    NOTIFY_NOT_SENT = (
        "LL-NOTIFY-01",
        "A notification was not taken by its recipient's service.",
        "The line of the recipient says why; check the address in its environment variable.",
    )
