package execunit

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// checkPowers maps each check of Pod Security baseline to the power that permits the fields that it forbids.
var checkPowers = map[policy.CheckID]Power{
	"appArmorProfile":            SecurityProfiles,
	"capabilities_baseline":      Capabilities,
	"hostNamespaces":             HostNamespaces,
	"hostPathVolumes":            HostPath,
	"hostPorts":                  HostPorts,
	"hostProbesAndHostLifecycle": ProbeHosts,
	"privileged":                 Privileged,
	"procMount":                  Privileged,
	"seLinuxOptions":             SecurityProfiles,
	"seccompProfile_baseline":    SecurityProfiles,
	"sysctls":                    Sysctls,
	"windowsHostProcess":         Privileged,
}

// baseline refuses fields that the newest Pod Security baseline forbids.
func (t Template) baseline() *Problem {
	for _, check := range policy.DefaultChecks() {
		if check.Level != api.LevelBaseline {
			continue
		}
		power, known := checkPowers[check.ID]
		if known && slices.Contains(t.Allow, power) {
			continue
		}
		result := check.Versions[len(check.Versions)-1].CheckPod(&t.Pod.ObjectMeta, &t.Pod.Spec)
		if result.Allowed {
			continue
		}
		what := result.ForbiddenReason
		if result.ForbiddenDetail != "" {
			what += " (" + cut(result.ForbiddenDetail, maxText) + ")"
		}
		return t.notAllowed(power, what)
	}
	return nil
}

// notAllowed refuses a field that requires a power.
func (t Template) notAllowed(power Power, what string) *Problem {
	setting := ""
	if power != "" {
		setting = fmt.Sprintf(", or, for every %s, let the operator's chart have %s: [%s]", t.Noun, t.Setting, power)
	}
	return problem(ReasonNotAllowed, "the pod template of %s asks for more than such pods may have: %s. Take it out%s.", t.Owner, what, setting)
}

// account refuses a service account that the author may not use, and tokens and certificates for
// other audiences. Where the API server asks about authors, they need the right to create pods in
// the namespace of the unit, which includes its service accounts.
func (t Template) account() *Problem {
	pod := t.Pod.Spec
	if slices.Contains(t.Allow, ServiceAccount) {
		return nil
	}
	if what := usesAccount(pod); what != "" && t.Namespace == t.OperatorNamespace {
		return t.notAllowed(ServiceAccount, fmt.Sprintf("%s in the operator's namespace %s (%s)", what, quoted(t.OperatorNamespace), t.Elsewhere))
	} else if what != "" && !t.AuthorAsked {
		return t.notAllowed(ServiceAccount, what+", while the operator does not ask whether its author may use it (sandboxes.authors.ask)")
	}
	for _, v := range pod.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			switch {
			case s.ServiceAccountToken != nil:
				return t.notAllowed(ServiceAccount, "a serviceAccountToken in the volume "+quoted(v.Name))
			case s.PodCertificate != nil:
				return t.notAllowed(ServiceAccount, "a podCertificate in the volume "+quoted(v.Name))
			}
		}
	}
	return nil
}

// usesAccount returns the field by which a pod gets the token of a service account; empty when it
// gets none.
func usesAccount(pod corev1.PodSpec) string {
	if account(pod) != "" {
		return "serviceAccountName " + quoted(account(pod))
	}
	if pod.AutomountServiceAccountToken != nil && *pod.AutomountServiceAccountToken {
		return "automountServiceAccountToken"
	}
	return ""
}

// reads refuses references to objects when the API server does not ask whether the author may
// read them.
func (t Template) reads() *Problem {
	if t.AuthorAsked || slices.Contains(t.Allow, Secrets) {
		return nil
	}
	if all := ReadsOf(t.Pod.Spec); len(all) > 0 {
		return t.notAllowed(Secrets, fmt.Sprintf("%s %s, while the operator does not ask whether its author may read it", all[0].Kind, quoted(all[0].Name)))
	}
	return nil
}
