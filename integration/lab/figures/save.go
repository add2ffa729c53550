package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/headwater/headwater/integration/testkit/record"
)

// shellWords quotes the words for a shell.
func shellWords(words []string) string {
	var typed []string
	for _, word := range words {
		if word == "" || strings.ContainsAny(word, " \t\n'\"$|&;<>()*?[]{}~#!`\\") {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		typed = append(typed, word)
	}
	return strings.Join(typed, " ")
}

// saveOutput runs a program and saves its output as a record. It saves no output of a program that fails.
func saveOutput(path, command string, bench bool, program []string) error {
	if len(program) == 0 {
		return errors.New("-save: name a program after --")
	}
	if command == "" {
		command = shellWords(program)
	}
	recorder, err := record.Start(command)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	cmd := exec.Command(program[0], program[1:]...)
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if bench {
		cmd.Stdout = io.MultiWriter(&out, os.Stdout)
	}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(program, " "), err)
	}
	if bench {
		found := parseBenchmarks(out.String())
		if len(found) == 0 {
			return fmt.Errorf("%s: printed no benchmark", strings.Join(program, " "))
		}
		return recorder.Save(path, found)
	}
	if !json.Valid(out.Bytes()) {
		return fmt.Errorf("%s: printed no JSON", strings.Join(program, " "))
	}
	return recorder.Save(path, json.RawMessage(out.Bytes()))
}
