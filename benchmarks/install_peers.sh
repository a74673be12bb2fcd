#!/bin/sh
# Installs the tools that benchmarks/end_to_end.py can be put beside, each in an environment of its own below DIR:
#     sh benchmarks/install_peers.sh DIR [PYTHON]
set -eu
folder=${1:?usage: install_peers.sh DIR [PYTHON]}
python=${2:-python3}

# With a newer langchain-community Ragas 0.4.3 cannot be imported.
"$python" -m venv "$folder/ragas"
"$folder/ragas/bin/pip" install --quiet 'ragas==0.4.3' 'langchain-community<0.4'

"$python" -m venv "$folder/deepeval"
"$folder/deepeval/bin/pip" install --quiet 'deepeval==4.3.1'

echo "python -m benchmarks.end_to_end --ragas $folder/ragas/bin/python --deepeval $folder/deepeval/bin/python"
