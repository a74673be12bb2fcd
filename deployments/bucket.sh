#!/bin/sh
# Make the bucket of the store, a user who may read and write it and nothing else, and one who may read it and nothing
# else. Doing it again changes nothing.
set -eu

user() { # NAME PASSWORD POLICY
  mc admin user add storage "$1" "$2"
  said=$(mc admin policy attach storage "$3" --user "$1" 2>&1) || case $said in
    *"already in effect"*) ;;
    *) echo "$said" >&2; exit 1 ;;
  esac
}

mc mb --ignore-existing storage/leadline
mc admin policy create storage leadline /bucket-policy.json
mc admin policy create storage leadline-reader /reader-policy.json
user "$STORAGE_USER" "$STORAGE_PASSWORD" leadline
user "$STORAGE_READER" "$STORAGE_READER_PASSWORD" leadline-reader
