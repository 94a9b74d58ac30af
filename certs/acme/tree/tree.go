// Package tree reads the keys of a [certmagic.Storage] as paths: what stands
// below a folder that has no being of its own. It knows names, and no storage.
//
// [certmagic.Storage]: https://pkg.go.dev/github.com/caddyserver/certmagic#Storage
package tree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/certmagic"
)

// Stat is that of a storage which loads the value of a key, with the time of
// its last change, and knows all its keys: of a key, or of a folder.
func Stat(ctx context.Context, key string, load func(context.Context, string) ([]byte, time.Time, error), keys func(context.Context) ([]string, error)) (certmagic.KeyInfo, error) {
	value, at, err := load(ctx, key)
	if err == nil {
		return certmagic.KeyInfo{Key: key, Modified: at, Size: int64(len(value)), IsTerminal: true}, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		var all []string
		if all, err = keys(ctx); err == nil {
			if len(Below(all, key)) > 0 {
				return certmagic.KeyInfo{Key: key}, nil
			}
			err = fs.ErrNotExist
		}
	}
	return certmagic.KeyInfo{}, fmt.Errorf("look at %s: %w", key, err)
}

// Below returns those of keys that stand in the folder path, at any depth; ""
// holds all. "a" is the folder of "a/b" and not of "ab".
func Below(keys []string, path string) []string {
	var below []string
	for _, key := range keys {
		if strings.HasPrefix(key, folder(path)) {
			below = append(below, key)
		}
	}
	return below
}

func folder(path string) string {
	if path = strings.Trim(path, "/"); path == "" {
		return ""
	}
	return path + "/"
}

// List returns the keys and folders right in the folder path, and where it is
// recursive those at any depth, sorted and in full. The error is
// [fs.ErrNotExist] where there is no such folder.
func List(keys []string, path string, recursive bool) ([]string, error) {
	base := folder(path)
	var all []string
	for _, key := range Below(keys, path) {
		for at := len(base); ; at++ {
			slash := strings.IndexByte(key[at:], '/')
			if slash < 0 {
				all = append(all, key)
				break
			}
			at += slash
			all = append(all, key[:at])
			if !recursive {
				break
			}
		}
	}
	if all == nil {
		return nil, fs.ErrNotExist
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}
