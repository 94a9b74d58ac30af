//go:build linux

package main

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"syscall"
	"time"
)

// redisServer is a Redis of the run's own, on the load's cores.
type redisServer struct {
	addr string
	cmd  *exec.Cmd
}

func startRedis(ctx context.Context, dir string) (*redisServer, error) {
	addrs, err := freeAddrs(1)
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(addrs[0])
	if err != nil {
		return nil, err
	}
	r := &redisServer{addr: addrs[0], cmd: exec.CommandContext(ctx, "redis-server", "--bind", host, "--port", port, "--save", "", "--dir", dir)}
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := r.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start redis-server (Debian package redis-server): %w", err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", r.addr)
		if err == nil {
			conn.Close()
			return r, nil
		}
		if time.Now().After(deadline) {
			r.stop()
			return nil, fmt.Errorf("start redis-server: %w", err)
		}
	}
}

func (r *redisServer) stop() {
	_ = r.cmd.Process.Kill() // it may have ended
	_ = r.cmd.Wait()         // killed: that is its error
}
