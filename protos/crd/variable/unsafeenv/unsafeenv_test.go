package unsafeenv_test

import (
	"testing"

	"switchyard.dev/protos/crd/variable/unsafeenv"
)

func TestVariablesThatRunCode(t *testing.T) {
	for _, name := range []string{
		"LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "LD_", "DYLD_INSERT_LIBRARIES", "DYLD_LIBRARY_PATH", "GLIBC_TUNABLES",
		"BASH_ENV", "SHELLOPTS", "BASHOPTS", "BASH_FUNC_ls%%", "BASH_FUNC_ls()", "PS4", "PROMPT_COMMAND",
		"PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME", "NODE_OPTIONS", "NODE_PATH",
		"JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH",
		"RUBYOPT", "RUBYLIB", "PERL5OPT", "PERL5LIB", "MAKEFLAGS", "MAKEFILES", "GOFLAGS", "DOTNET_STARTUP_HOOKS",
		"GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSH_VARIANT", "GIT_ASKPASS", "GIT_EDITOR", "GIT_PAGER", "GIT_EXTERNAL_DIFF", "GIT_EXEC_PATH",
		"GIT_PROXY_COMMAND", "GIT_CONFIG", "GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_0", "GIT_CONFIG_GLOBAL", "GIT_TEMPLATE_DIR",
		"PYTHONUSERBASE", "PYTHONBREAKPOINT", "GCONV_PATH", "PERLLIB", "PERL5DB", "LUA_INIT", "LUA_INIT_5_4", "LUA_CPATH", "OPENSSL_CONF", "OPENSSL_MODULES",
		"OPENSSL_ENGINES", "PHPRC", "PHP_INI_SCAN_DIR", "CORECLR_ENABLE_PROFILING", "CORECLR_PROFILER_PATH", "COR_PROFILER", "COR_PROFILER_PATH_64",
		"DOTNET_ADDITIONAL_DEPS", "DOTNET_PROFILER_PATH", "GEM_PATH", "GEM_HOME", "BUNDLE_GEMFILE", "RUBYSHELL", "GIT_DIR", "GIT_SEQUENCE_EDITOR",
		"R_PROFILE", "R_PROFILE_USER", "R_LIBS", "ZDOTDIR",
	} {
		for _, value := range []string{"", "x", "/config/start.sh"} {
			if !unsafeenv.RunsCode(name, value) {
				t.Errorf("%s=%s is let through", name, value)
			}
		}
	}
	for value, want := range map[string]bool{
		"/config/start.sh": true, "start/sh": true, "$HOME": true, "`id`": true, "production": false, "": false, "a.b:c": false, "..": false,
	} {
		if got := unsafeenv.RunsCode("ENV", value); got != want {
			t.Errorf("ENV=%s: %t, not %t", value, got, want)
		}
	}
	for _, name := range []string{
		"", "LD", "ld_preload", "XLD_PRELOAD", "PATH", "ENVIRONMENT", "MY_ENV", "BASH", "BASH_VERSION", "PYTHON", "PYTHONPATHS", "NODE_ENV", "JAVA_OPTS",
		"GIT_COMMIT", "GIT_AUTHOR_NAME", "GIT_DIRECTORY", "CORE_URL", "CORS_ORIGIN", "DOTNET_ENVIRONMENT", "LUA", "PHP_VERSION", "OPENSSL", "GIT_EDITORS", "GOPATH", "MAKE", "CLASSPATHS", "PS1", "PERL5",
	} {
		if unsafeenv.RunsCode(name, "/config/$x") {
			t.Errorf("%s is withheld", name)
		}
	}
}

func TestVariablesThatMayNameAPath(t *testing.T) {
	for name, want := range map[string]bool{"ERL_LIBS_PATH": true, "SPARK_HOME": true, "MYSQL_CONF": true, "APP_BASE": true, "CONFIG": false, "COLOR": false, "": false} {
		if got := unsafeenv.NamesPath(name); got != want {
			t.Errorf("%s: %t, not %t", name, got, want)
		}
	}
}
