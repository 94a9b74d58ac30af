package e2e_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/sessionproxy/sessionproxy/internal/freeport"
)

// proxied is an npm test that passes behind the proxy only.
const proxied = `{"scripts": {"test": "curl -sSf http://sessionproxy.internal/ca.pem | cmp - $SESSIONPROXY_STATE/ca.pem"}}`

// The lines of docs/ci.md run as they stand, but on free ports: on a machine
// with other jobs that is what the page tells to do.
func TestTheLinesOfTheCIPageRun(t *testing.T) {
	page := ciPage(t)
	dir := checkout(t)
	write(t, filepath.Join(dir, "package.json"), []byte(proxied))

	for _, tt := range []struct {
		name, script, listen string
		passes               bool
	}{
		{"the job", page.job, freeport.Addr(t), true},
		{"its step in GitHub Actions", page.step, freeport.Addr(t), true}, // with the program that the job has built
		{"the step with a proxy that does not start", page.step, "nowhere", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ops := freeport.Addr(t)
			log := filepath.Join(dir, "sessionproxy.log")
			_ = os.Remove(log) // of the other row
			// A runner ends what a step has left behind.
			script := "trap 'kill $(jobs -p) || true; wait' EXIT\n" + strings.ReplaceAll(tt.script, "127.0.0.1:8082", ops)
			cmd := exec.CommandContext(t.Context(), "bash", "-e", "-c", script)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "SESSIONPROXY_LISTEN="+tt.listen, "SESSIONPROXY_ADMIN="+freeport.Addr(t),
				"SESSIONPROXY_OPS="+ops, "SESSIONPROXY_STATE="+t.TempDir())
			out, err := cmd.CombinedOutput()
			said, logErr := os.ReadFile(log)
			if started := strings.Contains(string(said), "msg=serving"); logErr != nil || (err == nil) != tt.passes || started != tt.passes {
				t.Errorf("%v, %v; it printed\n%s\nand logged\n%s", err, logErr, out, said)
			}
		})
	}
	if want := "sessionproxy.log"; page.artifact != want {
		t.Errorf("the artifact is %q, want %q", page.artifact, want)
	}
}

// The container's configuration and command work. The image itself is not built
// here, since that takes a registry: what it holds is read from the Dockerfile.
func TestTheContainerOfTheCIPageServes(t *testing.T) {
	page := ciPage(t)
	docker, err := os.ReadFile("../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	var command []string
	if err := json.Unmarshal(find(t, docker, `(?m)^CMD (\[.*\])$`), &command); err != nil {
		t.Fatal(err)
	}
	for what, form := range map[string]string{
		"volume":  `(?m)^VOLUME /state$`,
		"ports":   `(?m)^EXPOSE 8080 8082$`,
		"program": `(?m)^ENTRYPOINT \["/sessionproxy"\]$`,
	} {
		if !regexp.MustCompile(form).Match(docker) {
			t.Errorf("the Dockerfile's %s is not what docs/ci.md tells of: no %s", what, form)
		}
	}

	dir := t.TempDir()
	config, state := filepath.Join(dir, "sessionproxy.yaml"), filepath.Join(dir, "state")
	listen, admin, ops := freeport.Addr(t), freeport.Addr(t), freeport.Addr(t)
	write(t, config, []byte(strings.NewReplacer(
		"0.0.0.0:8080", "0.0.0.0:"+port(listen), "0.0.0.0:8082", "0.0.0.0:"+port(ops)).Replace(page.config)))
	for i, arg := range command {
		command[i] = strings.NewReplacer("/etc/sessionproxy.yaml", config, "/state", state).Replace(arg)
	}
	var stderr buffer
	cmd := exec.CommandContext(t.Context(), binary, append(command, "--admin", admin)...) // a container has its own loopback
	cmd.Env = append(os.Environ(), "CI_PROXY_PASSWORD=s3cr:t")
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	for _, probe := range []string{"readyz", "healthz"} {
		waitUntil(t, probe, func() bool {
			_, err := curl(t, "-sSf", "http://"+ops+"/"+probe)
			return err == nil
		})
	}
	ca, err := os.ReadFile(filepath.Join(state, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	given, err := curl(t, "-sSf", "-x", "http://ci:s3cr%3At@"+listen, "http://sessionproxy.internal/ca.pem")
	if err != nil || given != string(ca) {
		t.Errorf("the CA through the proxy: %v\n%s", err, given)
	}
	if _, err := curl(t, "-sSf", "-x", "http://ci:wrong@"+listen, "http://shop.example.com/"); err == nil {
		t.Error("a wrong password is let in")
	}
	if strings.Contains(stderr.String(), "s3cr:t") {
		t.Error("the log has the password")
	}
}

// ci is what docs/ci.md holds for a machine to run.
type ci struct{ job, step, artifact, config string }

func ciPage(t *testing.T) (p ci) {
	t.Helper()
	page, err := os.ReadFile("../docs/ci.md")
	if err != nil {
		t.Fatal(err)
	}
	p.job = string(find(t, page, "(?s)```sh\n(.*?)```"))
	p.config = string(find(t, page, "(?s)```yaml\n(listen:.*?)```"))
	var steps []struct {
		Run  string
		With struct{ Path string }
	}
	if err := yaml.Unmarshal(find(t, page, "(?s)```yaml\n( *- run:.*?)```"), &steps); err != nil {
		t.Fatal(err)
	}
	for _, s := range steps {
		p.step += s.Run
		p.artifact += s.With.Path
	}
	if fences := bytes.Count(page, []byte("```\n")); fences != 3 {
		t.Fatalf("docs/ci.md has %d blocks of code, of which 3 are run", fences)
	}
	return p
}

// find returns what the expression's group matches.
func find(t *testing.T, text []byte, form string) []byte {
	t.Helper()
	m := regexp.MustCompile(form).FindSubmatch(text)
	if m == nil {
		t.Fatalf("no %s", form)
	}
	return m[1]
}

func port(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }

// checkout is a copy of the repository's files, as a job would have them.
func checkout(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	output(t, nil, "bash", "-euo", "pipefail", "-c", `cd .. && git ls-files -z --cached --others --exclude-standard | tar --null --ignore-failed-read -cT - | tar -xC "$1"`, "-", dir)
	return dir
}
