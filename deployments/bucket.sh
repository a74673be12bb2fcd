#!/bin/sh
# Make the bucket of the store and a user who may read and write it and nothing else. Doing it again changes nothing.
set -eu

mc mb --ignore-existing storage/leadline
mc admin policy create storage leadline /bucket-policy.json
mc admin user add storage "$STORAGE_USER" "$STORAGE_PASSWORD"
said=$(mc admin policy attach storage leadline --user "$STORAGE_USER" 2>&1) || case $said in
  *"already in effect"*) ;;
  *) echo "$said" >&2; exit 1 ;;
esac
