package audit

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// docs/access.md tells of each action and each field.
func TestDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/access.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range []Action{SessionUsed, ClientRefused, ClientLogin, API, OperatorLogin, CaptchaSolve, CaptchaFill, TokenReuse} {
		if !strings.Contains(string(page), "| `"+string(a)+"` |") {
			t.Errorf("docs/access.md lacks the action %s", a)
		}
	}
	for f := range reflect.TypeFor[Event]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/access.md lacks the field %s", name)
		}
	}
}
