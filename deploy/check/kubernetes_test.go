package check

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

const kubernetes = "../kubernetes"

// kustomization is what kustomization.yaml says; kustomize's own types need a
// newer Go than the proxy.
type kustomization struct {
	meta.TypeMeta
	Namespace          string
	Resources          []string
	ConfigMapGenerator []struct {
		Name  string
		Files []string
	}
	Images []struct{ Name, NewName, NewTag string }
}

// read decodes a file of ../kubernetes; a key that Kubernetes does not know is
// an error.
func read[T any](t *testing.T, file string) *T {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(kubernetes, file))
	if err != nil {
		t.Fatal(err)
	}
	into := new(T)
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return into
}

func TestKubernetes(t *testing.T) {
	kustomized := read[kustomization](t, "kustomization.yaml")
	deployment := read[apps.Deployment](t, "deployment.yaml")
	service := read[core.Service](t, "service.yaml")
	autoscaler := read[autoscaling.HorizontalPodAutoscaler](t, "autoscaler.yaml")
	budget := read[policy.PodDisruptionBudget](t, "budget.yaml")
	network := read[networking.NetworkPolicy](t, "network.yaml")

	t.Run("all files are applied", func(t *testing.T) {
		files, err := filepath.Glob(kubernetes + "/*.yaml")
		if err != nil {
			t.Fatal(err)
		}
		named := append(slices.Clone(kustomized.Resources), kustomized.ConfigMapGenerator[0].Files...)
		for _, file := range files {
			if name := filepath.Base(file); name != "kustomization.yaml" && !slices.Contains(named, name) {
				t.Errorf("kustomization.yaml does not name %s", name)
			}
		}
	})
	t.Run("all select the pods of the deployment", func(t *testing.T) {
		pod := labels.Set(deployment.Spec.Template.Labels)
		for of, selector := range map[string]*meta.LabelSelector{
			"deployment": deployment.Spec.Selector, "budget": budget.Spec.Selector, "network": &network.Spec.PodSelector,
			"spread": deployment.Spec.Template.Spec.TopologySpreadConstraints[0].LabelSelector, "service": {MatchLabels: service.Spec.Selector},
		} {
			s, err := meta.LabelSelectorAsSelector(selector)
			if err != nil || s.Empty() || !s.Matches(pod) {
				t.Errorf("%s: selects %v (%v), the pods have %v", of, s, err, pod)
			}
		}
		if target := autoscaler.Spec.ScaleTargetRef; target.Kind != "Deployment" || target.Name != deployment.Name || target.APIVersion != deployment.APIVersion {
			t.Errorf("the autoscaler scales %+v", target)
		}
	})

	pod := deployment.Spec.Template.Spec
	container := pod.Containers[0]
	t.Run("the pod has no rights", func(t *testing.T) {
		switch s, p := container.SecurityContext, pod.SecurityContext; {
		case !*p.RunAsNonRoot, *p.RunAsUser == 0, p.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault,
			*s.AllowPrivilegeEscalation, !*s.ReadOnlyRootFilesystem, !slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}),
			*pod.AutomountServiceAccountToken:
			t.Errorf("pod %+v, container %+v", p, s)
		}
		if image := dockerfile(t); *pod.SecurityContext.RunAsUser != image.uid || *pod.SecurityContext.FSGroup != image.uid {
			t.Errorf("the image's user is %d", image.uid)
		}
	})
	t.Run("ports have the names that others call them by", func(t *testing.T) {
		ports := map[intstr.IntOrString]bool{}
		for _, p := range container.Ports {
			ports[intstr.FromString(p.Name)] = true
		}
		asked := []intstr.IntOrString{
			service.Spec.Ports[0].TargetPort, container.StartupProbe.HTTPGet.Port, container.LivenessProbe.HTTPGet.Port,
			container.ReadinessProbe.HTTPGet.Port,
		}
		for _, rule := range network.Spec.Ingress {
			for _, p := range rule.Ports {
				asked = append(asked, *p.Port)
			}
		}
		for _, port := range asked {
			if !ports[port] {
				t.Errorf("no port of the container is called %v", port)
			}
		}
	})
	t.Run("it may drain before it is killed", func(t *testing.T) {
		const drain = 20
		if left := *pod.TerminationGracePeriodSeconds - container.Lifecycle.PreStop.Sleep.Seconds; left <= drain {
			t.Errorf("%d s are left of the grace period, and the proxy drains for %d", left, drain)
		}
	})
	t.Run("its configuration is right", func(t *testing.T) {
		config(t, filepath.Join(kubernetes, "sessionproxy.yaml"))
		if mount := container.VolumeMounts[0].MountPath; !slices.Contains(container.Args, mount) {
			t.Errorf("the configuration is at %s, and the arguments are %q", mount, container.Args)
		}
		for _, p := range container.Ports {
			if !bytes.Contains(file(t, filepath.Join(kubernetes, "sessionproxy.yaml")), fmt.Appendf(nil, "0.0.0.0:%d", p.ContainerPort)) {
				t.Errorf("nothing listens on the port %s, %d", p.Name, p.ContainerPort)
			}
		}
	})
}
