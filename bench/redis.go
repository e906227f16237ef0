package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisServer is a private Redis that can be killed, booted again where it was,
// and stopped by a signal.
type redisServer struct {
	address, dir string
	process      *exec.Cmd
}

func startRedis(ctx context.Context, dir string) (*redisServer, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	r := &redisServer{address: address, dir: dir}
	return r, r.boot(ctx)
}

func (r *redisServer) url() string { return "redis://" + r.address }

// boot starts the server and waits until it takes connections.
func (r *redisServer) boot(ctx context.Context) error {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return errors.New("redis-server is not installed: `make test` installs it")
	}
	host, port, err := net.SplitHostPort(r.address)
	if err != nil {
		return err
	}
	r.process = exec.Command(path, "--bind", host, "--port", port, "--dir", r.dir, "--appendonly", "yes", "--save", "")
	if err := r.process.Start(); err != nil {
		return err
	}
	var dialer net.Dialer
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if conn, err := dialer.DialContext(ctx, "tcp", r.address); err == nil {
			return conn.Close()
		}
	}
	r.kill()
	return fmt.Errorf("redis-server does not listen on %s", r.address)
}

// keys is how many there are.
func (r *redisServer) keys(ctx context.Context) (int64, error) {
	client := redis.NewClient(&redis.Options{Addr: r.address})
	defer client.Close()
	return client.DBSize(ctx).Result()
}

func (r *redisServer) signal(s os.Signal) error { return r.process.Process.Signal(s) }

func (r *redisServer) kill() {
	_ = r.process.Process.Kill()
	_ = r.process.Wait()
}
