package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sessionproxy/sessionproxy/internal/freeport"
)

const me = "https://shop.test/api/me"

// The program that each row runs knows nothing of proxy or CA but what "run"
// tells it. The state directory's path has all that a careless quoting trips on.
func TestRunTellsEachProgramOfTheProxyAndItsCA(t *testing.T) {
	tmp := filepath.Join(t.TempDir(), `o'b "x" $y`)
	if err := os.Mkdir(tmp, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", tmp)
	t.Setenv("HOME", t.TempDir()) // nobody's own settings count
	asking, pinned := freeport.Addr(t), freeport.Addr(t)
	i := start(t, "demo", "--listen", asking+",ask", "--listen", pinned+",client=crawler,session=qa1")
	state, err := filepath.Glob(tmp + "/sessionproxy-demo-*")
	if err != nil || len(state) != 1 {
		t.Fatalf("the demo's directories: %q (%v)", state, err)
	}
	find := []string{"--admin", i.admin, "--state", state[0]}
	run := func(command ...string) []string {
		return append(append([]string{"run", "--session", "qa1"}, find...), append([]string{"--"}, command...)...)
	}
	output(t, nil, binary, run("bash", "-euo", "pipefail", "-c", `cd "$HOME"
token=$(curl -s -c jar https://shop.test/login | sed -n 's/.*name="csrf_token" value="\([^"]*\)".*/\1/p')
curl -sSo page -b jar -c jar -d user=alice -d password=wonderland -d "csrf_token=$token" https://shop.test/login`)...)

	for _, tt := range []struct {
		tool, want string
		command    []string
	}{
		{"curl", `"alice"`, []string{"curl", "-sS", me}},
		{"wget", `"alice"`, []string{"wget", "-nv", "-O-", me}},
		{"git, as far as a shop goes", "repository 'https://shop.test/none.git/' not found", []string{"sh", "-c", "git ls-remote https://shop.test/none.git 2>&1 || true"}},
		{"Python's urllib", `"alice"`, []string{"python3", "-c", "import urllib.request; print(urllib.request.urlopen('" + me + "').read())"}},
		{"Perl's LWP", `"alice"`, []string{"perl", "-MLWP::UserAgent", "-e", "print LWP::UserAgent->new->get('" + me + "')->as_string"}},
		{"Perl's HTTP::Tiny", `"alice"`, []string{"perl", "-MHTTP::Tiny", "-e", "print HTTP::Tiny->new(verify_SSL => 1)->get('" + me + "')->{content}"}},
		{"Ruby's Net::HTTP", `"alice"`, []string{"ruby", "-rnet/http", "-e", "print Net::HTTP.get(URI('" + me + "'))"}},
		{"PHP's curl", `"alice"`, []string{"php", "-r", "$c = curl_init('" + me + "'); curl_exec($c) or print curl_error($c);"}},
		{"an agent in Node", `"alice"`, []string{"node", "-e", nodeAgent}},
		{"npm", "404 Not Found - GET https://shop.test/none", []string{"sh", "-c", "npm view none --registry=https://shop.test/ --fetch-retries=0 2>&1 || true"}},
	} {
		t.Run(tt.tool, func(t *testing.T) {
			if got := output(t, nil, binary, run(tt.command...)...); !strings.Contains(got, tt.want) {
				t.Errorf("it printed %q, want %q in it", got, tt.want)
			}
		})
	}

	// Java sends no user name: the port pinned to the client and its session is chosen.
	t.Run("Java", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "Me.java")
		write(t, file, []byte(javaClients))
		command := append([]string{"run", "--client", "crawler", "--session", "qa1"}, find...)
		if got := output(t, nil, binary, append(command, "--", "java", file, me)...); strings.Count(got, `"alice"`) != 2 {
			t.Errorf("its two clients printed %q, want alice twice", got)
		}
	})

	t.Run("the lines of env, evaluated", func(t *testing.T) {
		line := `eval "$("$@")"; curl -sS ` + me
		if got := output(t, nil, "bash", append([]string{"-euc", line, "-", binary, "env", "--session", "qa1"}, find...)...); !strings.Contains(got, `"alice"`) {
			t.Errorf("curl printed %q, want alice", got)
		}
	})
}

// Node reads an .env file by itself.
func TestNodeReadsTheDotenvFormat(t *testing.T) {
	state := filepath.Join(t.TempDir(), "with space $x #y")
	start(t, "serve", "--share", "shop.test", "--state", state)
	env := []string{"env", "--format", "dotenv", "--listen", "127.0.0.1:8080", "--session", "qa1", "--state", state}
	file := filepath.Join(t.TempDir(), ".env")
	write(t, file, []byte(output(t, nil, binary, env...)))
	cmd := exec.CommandContext(t.Context(), "node", "--env-file", file, "-p", "[process.env.https_proxy, process.env.CURL_CA_BUNDLE, process.env.JAVA_TOOL_OPTIONS.slice(-8)].join('\\n')")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")} // its variables come before the file's
	got, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if want := "http://run-session-qa1:x@127.0.0.1:8080\n" + state + "/ca-bundle.pem\ndle.p12\"\n"; string(got) != want {
		t.Errorf("Node reads\n%s\nwant\n%s", got, want)
	}
}

// nodeAgent does what the agents on npm do. Before 22.21, Node's own clients do
// not read https_proxy.
const nodeAgent = `
const proxy = new URL(process.env.https_proxy);
const login = Buffer.from(decodeURIComponent(proxy.username) + ":" + decodeURIComponent(proxy.password)).toString("base64");
require("http").request({host: proxy.hostname, port: proxy.port, method: "CONNECT", path: "shop.test:443", headers: {"Proxy-Authorization": "Basic " + login}})
  .on("connect", (res, socket) => require("https").get("` + me + `", {createConnection: () => require("tls").connect({socket, servername: "shop.test"})}, res => res.pipe(process.stdout)))
  .end();
`

const javaClients = `
import java.net.*;
import java.net.http.*;

public class Me {
  public static void main(String[] args) throws Exception {
    System.out.write(new URL(args[0]).openStream().readAllBytes());
    System.out.println(HttpClient.newHttpClient().send(HttpRequest.newBuilder(URI.create(args[0])).build(), HttpResponse.BodyHandlers.ofString()).body());
  }
}
`
