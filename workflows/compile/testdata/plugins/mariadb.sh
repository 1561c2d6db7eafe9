#!/bin/sh
set -e
kubectl run "$SIGNADOT_SANDBOX_NAME-$SIGNADOT_RESOURCE_NAME" --image=mariadb --env="MARIADB_DATABASE=$DB_NAME"
