package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sessionproxy/sessionproxy/internal/config"
)

// flagError says what is wrong with a flag of c, and what would be right.
func flagError(c *cobra.Command, err error) error {
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		flag, remedy := wrong.GetFlag(), ""
		switch flag.Value.Type() {
		case "int":
			remedy = "write a number in digits"
		case "bool":
			remedy = "leave the value out"
		case "duration":
			remedy = "write it like 90s, 30m or 24h"
		}
		if remedy != "" {
			err = fmt.Errorf("--%s %s: %s", flag.Name, wrong.GetValue(), remedy)
		}
	}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok && unknown.GetSpecifiedShortnames() == "" {
		if meant := meantFlag(c, unknown.GetSpecifiedName()); meant != "" {
			err = fmt.Errorf("%w; did you mean --%s?", err, meant)
		}
	}
	return usageError{err, c.CommandPath()}
}

// meantFlag is the flag that a typo, or its end that is missing, parts from
// name, or "".
func meantFlag(c *cobra.Command, name string) string {
	var all, longer []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		all = append(all, f.Name)
		if strings.HasPrefix(f.Name, name) {
			longer = append(longer, f.Name)
		}
	})
	if len(longer) == 1 {
		return longer[0]
	}
	return config.Nearest(name, all)
}

// completes has shells offer the words that a flag of c takes.
func completes[T ~string](c *cobra.Command, flag string, words []T) {
	var all []cobra.Completion
	for _, w := range words {
		all = append(all, string(w))
	}
	cobra.CheckErr(c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(all, cobra.ShellCompDirectiveNoFileComp)))
}
