package check

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"sigs.k8s.io/yaml"
)

func TestCompose(t *testing.T) {
	options, err := cli.NewProjectOptions([]string{"../compose.yaml"}, cli.WithResolvedPaths(false))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var prometheus struct {
		ScrapeConfigs []struct {
			StaticConfigs []struct {
				Targets []string `json:"targets"`
			} `json:"static_configs"`
		} `json:"scrape_configs"`
	}
	if err := yaml.Unmarshal(file(t, "../compose/prometheus.yaml"), &prometheus); err != nil {
		t.Fatal(err)
	}
	scraped := strings.Join(prometheus.ScrapeConfigs[0].StaticConfigs[0].Targets, " ")
	for name, service := range project.Services {
		for _, v := range service.Volumes {
			// Secrets are made by secrets.sh.
			if from := filepath.Join("..", v.Source); v.Type == "bind" && !strings.HasPrefix(from, "../secrets") {
				if _, err := os.Stat(from); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		for _, port := range service.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s: port %s is open to the network", name, port.Published)
			}
		}
		if strings.HasPrefix(name, "proxy-") && !strings.Contains(scraped, fmt.Sprintf("%s:8082", name)) {
			t.Errorf("Prometheus does not scrape %s", name)
		}
	}
	config(t, "../compose/sessionproxy.yaml")
}
