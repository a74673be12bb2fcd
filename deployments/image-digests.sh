#!/usr/bin/env bash
# Print the images that the container files name, each with the digest that its tag has now, as lines for --env-file.
set -euo pipefail
cd "$(dirname "$0")"

grep --only-matching --no-filename --extended-regexp '\$\{[A-Z_]+_IMAGE:-[^}]+:[^}]+\}' compose*.yaml | sort --unique |
  while IFS= read -r found; do
    found=${found#??} found=${found%\}}
    name=${found%%:-*} image=${found#*:-}
    digest=$(docker buildx imagetools inspect "$image" --format '{{.Manifest.Digest}}')
    [[ $digest == sha256:* ]] || { echo "$image has no digest: $digest" >&2; exit 1; }
    echo "$name=$image@$digest"
  done
