package power_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"switchyard.dev/reconcilers/fork/power"
)

// Each field names an object of its own name.
const readsAll = `
imagePullSecrets: [{name: pull}]
volumes:
- {name: secret, secret: {secretName: secret}}
- {name: config, configMap: {name: config}}
- {name: claim, persistentVolumeClaim: {claimName: claim}}
- name: projected
  projected: {sources: [{secret: {name: projected-secret}}, {configMap: {name: projected-config}}, {serviceAccountToken: {path: token}}]}
- name: ephemeral
  ephemeral: {volumeClaimTemplate: {spec: {dataSource: {kind: PersistentVolumeClaim, name: copied}, dataSourceRef: {apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot, name: snapshot}}}}
- {name: csi, csi: {driver: d, nodePublishSecretRef: {name: csi}}}
- {name: flex, flexVolume: {driver: d, secretRef: {name: flex}}}
- {name: cephfs, cephfs: {monitors: [m], secretRef: {name: cephfs}}}
- {name: rbd, rbd: {monitors: [m], image: i, secretRef: {name: rbd}}}
- {name: iscsi, iscsi: {targetPortal: t, iqn: q, lun: 1, secretRef: {name: iscsi}}}
- {name: cinder, cinder: {volumeID: v, secretRef: {name: cinder}}}
- {name: scaleio, scaleIO: {gateway: g, system: s, secretRef: {name: scaleio}}}
- {name: storageos, storageos: {secretRef: {name: storageos}}}
- {name: azure, azureFile: {shareName: s, secretName: azure}}
- {name: none, emptyDir: {}}
- {name: unset, csi: {driver: d}}
containers:
- name: main
  envFrom: [{secretRef: {name: all-secret}}, {configMapRef: {name: all-config, optional: true}}]
  env:
  - {name: PLAIN, value: v}
  - {name: KEY, valueFrom: {secretKeyRef: {name: key-secret, key: k}}}
  - {name: MAP, valueFrom: {configMapKeyRef: {name: key-config, key: k}}}
  - {name: FIELD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
initContainers: [{name: init, envFrom: [{secretRef: {name: init-secret}}]}]
`

func TestEveryFieldThatReadsAnObjectIsFound(t *testing.T) {
	var pod corev1.PodSpec
	if err := yaml.UnmarshalStrict([]byte(readsAll), &pod); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range power.Reads(&pod) {
		got = append(got, strings.TrimPrefix(fmt.Sprintf("%s/%s %s", r.Group, r.Kind, r.Name), "/"))
	}
	want := strings.Split(strings.TrimSpace(`
Secret pull
Secret secret
ConfigMap config
PersistentVolumeClaim claim
Secret projected-secret
ConfigMap projected-config
PersistentVolumeClaim copied
snapshot.storage.k8s.io/VolumeSnapshot snapshot
Secret csi
Secret flex
Secret cephfs
Secret rbd
Secret iscsi
Secret cinder
Secret scaleio
Secret storageos
Secret azure
Secret init-secret
Secret all-secret
ConfigMap all-config
Secret key-secret
ConfigMap key-config`), "\n")
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("reads:\n%s\n\nwant:\n%s", g, w)
	}
}
