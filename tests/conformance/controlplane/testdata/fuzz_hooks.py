"""Hooks of schemathesis: specifications name objects that exist, so that some are accepted."""

import schemathesis


@schemathesis.hook
def map_body(context, body):
    spec = body.get("spec") if isinstance(body, dict) else None
    if isinstance(spec, dict):
        known = {"cluster": "demo", "runnerGroup": "demo-jrg", "jobTimeout": "5m", "namespace": "signadot", "namePrefix": "fuzz"}
        spec.update({field: value for field, value in known.items() if field in spec})
        if context.operation.path.endswith("/jobs") and len(spec) % 2:
            spec.update(runnerGroup="demo-jrg", script="#!/bin/sh\n", command=None, routingContext={})
    return body
