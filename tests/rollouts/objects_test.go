package rollouts_test

// The baseline waits for a person before a new form of it gets everything, and has
// Services for both of its forms.
const shop = `
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: shop, namespace: argo, labels: {app: shop}}
spec:
  replicas: 2
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}, annotations: {sidecar.signadot.com/inject: "true"}}
    spec: {containers: [{name: main, image: "shop:1", ports: [{name: http, containerPort: 8080}]}]}
  strategy:
    canary:
      stableService: shop-stable
      canaryService: shop-canary
      steps: [{setWeight: 50}, {pause: {}}]
`

const shopServices = `
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Service
  metadata: {name: shop-stable, namespace: argo}
  spec: {selector: {app: shop}, ports: [{port: 80, targetPort: http}]}
- apiVersion: v1
  kind: Service
  metadata: {name: shop-canary, namespace: argo}
  spec: {selector: {app: shop}, ports: [{port: 80, targetPort: http}]}
`

// The pods of this one are made from the template of a Deployment.
const referring = `
apiVersion: v1
kind: List
items:
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: referred, namespace: argo}
  spec:
    replicas: 0
    selector: {matchLabels: {app: referred}}
    template:
      metadata: {labels: {app: referred}}
      spec: {containers: [{name: main, image: "referred:1"}]}
- apiVersion: argoproj.io/v1alpha1
  kind: Rollout
  metadata: {name: referring, namespace: argo}
  spec:
    replicas: 1
    workloadRef: {apiVersion: apps/v1, kind: Deployment, name: referred}
    strategy: {canary: {maxSurge: 1}}
`
