package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/session"
	"github.com/sessionproxy/sessionproxy/session/embedded"
	"github.com/sessionproxy/sessionproxy/session/redisstore"
	"github.com/sessionproxy/sessionproxy/session/redisstore/conn"
)

func storeCommand(lookupEnv func(string) (string, bool)) *cobra.Command {
	cmd := &cobra.Command{Use: "store", Short: "Move sessions between stores"}
	cmd.AddCommand(storeCopyCommand(lookupEnv))
	return cmd
}

func storeCopyCommand(lookupEnv func(string) (string, bool)) *cobra.Command {
	source := config.Source{LookupEnv: lookupEnv}
	cmd := &cobra.Command{
		Use:   "copy FROM TO",
		Short: "Copy all sessions from one store to another",
		Long: `Copy all sessions from one store to another: their cookies and private jars,
and what is remembered of revoked sessions and deleted cookies. What both have
is merged, the newer value of each cookie wins; nothing is removed from FROM.

FROM and TO are "embedded" for the store in the state directory, a state
directory, or the URL of a Redis. What a configuration says of the store with
that URL, such as its keys, counts. A proxy holds its embedded store open: stop
it first.`,
		Example: `  sessionproxy store copy embedded redis://10.0.0.4
  sessionproxy store copy --config sessionproxy.yaml redis://10.0.0.4 ./state`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usageError{errors.New("store copy: name the store to copy from, and the one to copy to"), "sessionproxy store copy"}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			return storeCopy(c.Context(), source, args[0], args[1], c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&source.File, "config", "c", "", "configuration `FILE`")
	f.StringVar(&source.Flags.State, "state", "", "state `DIR` of the embedded store (default ./state)")
	return cmd
}

// copied is what is copied from and to.
type copied interface {
	Keys(ctx context.Context) ([]session.Key, error)
	Record(ctx context.Context, key session.Key) (*session.Record, error)
	Put(ctx context.Context, key session.Key, r *session.Record) error
	Close() error
}

func storeCopy(ctx context.Context, source config.Source, from, to string, stdout, stderr io.Writer) (err error) {
	c, err := config.Load(source)
	if err != nil {
		return err
	}
	src, err := openCopied(ctx, c, from, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	dst, err := openCopied(ctx, c, to, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()

	keys, err := src.Keys(ctx)
	if err != nil {
		return err
	}
	bar := newProgress(stderr, "copying", len(keys))
	defer bar.end()
	sessions, private := 0, 0
	for _, key := range keys {
		r, err := src.Record(ctx, key)
		if err != nil {
			return err
		}
		if r != nil {
			if err := dst.Put(ctx, key, r); err != nil {
				return err
			}
			if key.Worker == "" {
				sessions++
			} else {
				private++
			}
		}
		bar.step()
	}
	bar.end()
	fmt.Fprintf(stdout, "copied %d sessions and %d private jars\n", sessions, private)
	return nil
}

// openCopied opens the store that an argument names. One that is copied from has
// to be there.
func openCopied(ctx context.Context, c *config.Config, name string, create bool) (copied, error) {
	if !strings.Contains(name, "://") {
		dir := name
		if name == config.Embedded {
			dir = c.State
		}
		file := filepath.Join(dir, "store.db")
		if _, err := os.Stat(file); err != nil && !create {
			return nil, fmt.Errorf("open store %s: %w; name a state directory with a store in it", name, err)
		}
		if err := makeState(dir); err != nil {
			return nil, err
		}
		return embedded.Open(file)
	}
	settings := config.Store{URL: name, Mirror: true, Prefix: "session:"}
	if c.Store.URL == name {
		settings = c.Store
	}
	o, ok := settings.Redis()
	if !ok {
		_, err := conn.Parse(name)
		return nil, fmt.Errorf("store copy: %w", err)
	}
	conn.LogTo(slog.New(slog.DiscardHandler)) // what fails is the command's own error
	client, err := conn.Open(o)
	if err != nil {
		return nil, err
	}
	limit, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	if _, err := client.Check(limit, settings.Prefix); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	if err := sameLayout(limit, client, settings.Prefix); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	sites := sitesOf(c)
	store, err := redisstore.Open(redisstore.Options{
		Client: client, Prefix: settings.Prefix, Encryption: settings.Keys(), NoMirror: !settings.Mirror,
		Sites: func(key string) (redisstore.Site, bool) { site, ok := sites[key]; return site, ok },
	})
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return &copiedRedis{store, client}, nil
}

// copiedRedis closes its client too.
type copiedRedis struct {
	*redisstore.Store
	client *conn.Client
}

func (c *copiedRedis) Close() error { return errors.Join(c.Store.Close(), c.client.Close()) }
