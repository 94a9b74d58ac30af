package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// missing says what to do where a program is not there.
const missing = "redis-server and redis-sentinel are needed: apt-get install redis-server redis-sentinel"

// process is one server as the system sees it.
type process struct {
	program string
	env     []string // beside the test's own
	cmd     *exec.Cmd
	out     string
	gone    chan struct{} // closed once cmd has ended
}

func (p *process) start(dir string, args ...string) error {
	path, err := exec.LookPath(p.program)
	if err != nil {
		return errors.New(missing)
	}
	p.out = filepath.Join(dir, "log")
	out, err := os.OpenFile(p.out, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	p.cmd = exec.Command(path, args...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, out, out
	p.cmd.SysProcAttr = attributes
	p.cmd.Env = append(os.Environ(), p.env...)
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.program, err)
	}
	gone := make(chan struct{})
	p.gone = gone
	go func() {
		_ = p.cmd.Wait()
		close(gone)
	}()
	return nil
}

// ready waits until the server answers at an address.
func (p *process) ready(network, addr string) error {
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		select {
		case <-p.gone:
			return fmt.Errorf("%s ended at its start", p.program)
		case <-time.After(2 * time.Millisecond):
		}
		if answers(network, addr) {
			return nil
		}
	}
	p.kill()
	return fmt.Errorf("%s did not answer within 20 s", p.program)
}

// answers says whether a server speaks at addr, and has loaded its data. That
// it asks for a password is an answer too.
func answers(network, addr string) bool {
	c, err := net.DialTimeout(network, addr, time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Second))
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	return err == nil && (strings.HasPrefix(line, "+PONG") || strings.HasPrefix(line, "-NOAUTH"))
}

// kill ends the process, frozen or not, and waits for its end.
func (p *process) kill() {
	if p.gone == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGKILL)
	<-p.gone
}

func (p *process) runs() bool {
	select {
	case <-p.gone:
		return false
	default:
		return true
	}
}

func (p *process) freeze() { _ = p.cmd.Process.Signal(syscall.SIGSTOP) }
func (p *process) thaw()   { _ = p.cmd.Process.Signal(syscall.SIGCONT) }

// log is what the process wrote.
func (p *process) log() string {
	b, _ := os.ReadFile(p.out)
	return string(b)
}
