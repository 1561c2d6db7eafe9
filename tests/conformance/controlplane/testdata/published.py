"""Runs the operations of the published Python client (signadot-sdk) against a control plane: URL, API key, organisation."""

import sys

import signadot_sdk as sdk
from signadot_sdk.rest import ApiException

url, key, org = sys.argv[1:]
config = sdk.Configuration()
config.host, config.api_key = url + "/api/v2", {"signadot-api-key": key}
client = sdk.ApiClient(config)
clusters, sandboxes, groups = sdk.ClusterApi(client), sdk.SandboxesApi(client), sdk.RouteGroupsApi(client)


def refused(status, text, call, *args, **options):
    try:
        call(*args, **options)
    except ApiException as e:
        assert e.status == status and text in str(e.body), (e.status, e.body)
        return
    raise AssertionError(f"{call.__name__} {args} is not refused")


cluster, name, group = "published", "published-sandbox", "published-group"
refused(404, "not found", clusters.get_cluster, org, cluster)
assert clusters.add_cluster(org, cluster).name == cluster
refused(409, "already exists", clusters.add_cluster, org, cluster)
assert cluster in [c.name for c in clusters.list_clusters(org)]
token = clusters.create_cluster_token(org, cluster)
assert len(token.token) > 40 and token.id in [t.id for t in clusters.list_cluster_tokens(org, cluster)]
assert clusters.get_cluster_token(org, cluster, token.id).masked_value == token.masked_value

fork = sdk.SandboxFork(
    fork_of=sdk.SandboxForkOf(kind="Deployment", namespace="hotrod", name="route"),
    customizations=sdk.SandboxCustomizations(
        images=[sdk.SandboxImage(image="example.com/route:1")], env=[sdk.SandboxEnvVar(name="A", value="b")],
        patch=sdk.SandboxCustomPatch(type="strategic", value="spec: {replicas: 1}")),
    endpoints=[sdk.SandboxForkEndpoint(name="api", port=8083, protocol="http")])
frontend = sdk.RouteGroupSpecEndpoint(name="web", target="http://frontend.hotrod.svc:8080")
wanted = sdk.SandboxSpec(
    cluster=cluster, description="first", labels={"team": "checkout"}, ttl=sdk.SandboxTTL(duration="2h"), forks=[fork],
    default_route_group=sdk.SandboxDefaultRouteGroup(endpoints=[frontend]))
made = sandboxes.apply_sandbox(org, name, sdk.Sandbox(name=name, spec=wanted))
assert made.routing_key and sorted(e.name for e in made.endpoints) == ["api", "web"], made
assert made.status.ready is False and made.status.message, made
got = sandboxes.get_sandbox(org, name)
assert got == made and got.spec.forks[0].customizations.env[0].value == "b", got
got.spec.description = "second"
again = sandboxes.apply_sandbox(org, name, got)  # a client sends back what it got
assert again.routing_key == made.routing_key and again.spec.description == "second", again
assert name in [s.name for s in sandboxes.list_sandboxes(org)]
wanted.cluster = "none"
refused(404, "spec.cluster", sandboxes.apply_sandbox, org, "other", sdk.Sandbox(name="other", spec=wanted))

match = sdk.RouteGroupMatch(label=sdk.RouteGroupMatchLabel(key="team", value="checkout"))
spec = sdk.RouteGroupSpec(cluster=cluster, description="first", match=match, endpoints=[frontend])
made = groups.apply_routegroup(org, group, sdk.RouteGroup(name=group, spec=spec))
assert made.status.matched_sandboxes == [name] and made.endpoints[0].name == "web", made
got = groups.get_routegroup(org, group)
assert groups.apply_routegroup(org, group, got).routing_key == made.routing_key
assert group in [g.name for g in groups.list_routegroups(org)]
groups.delete_routegroup(org, group)
refused(404, "not found", groups.get_routegroup, org, group)

refused(409, name, clusters.remove_cluster, org, cluster)
sandboxes.delete_sandbox(org, name)
sandboxes.delete_sandbox(org, name, force=True)
refused(404, "not found", sandboxes.delete_sandbox, org, "none")
clusters.delete_cluster_token(org, cluster, token.id)
refused(404, "not found", clusters.get_cluster_token, org, cluster, token.id)
