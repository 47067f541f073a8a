"""Projects as frameworks lay them out, with what looks like a secret there and is none: nothing of them is hidden, and
real secrets in the same projects are.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from threegate.plugins.agents.project_survey import survey

HASH = "v2kDEe57lecTulaDIuNTPy3Ry4gLGJ6Z1O3vE1krgXZNrsQ+LFTGHVxVjcXPs17LhbZVGedAJv8XZ1tvj5FvSg=="
HEX = "5f2b9c07a1e84d36b0c95ad1e7f38264"
JWT = (
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIiwiaWF0IjoxNTE2MjM5MDIyfQ."
    "SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c"
)
AWS = "AKIA" + "IOSFODNN7EXAMPLE"
AWS_SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
TOKEN = "ghp_" + "n4Kd9Zq2Lw8Xr5Tb7Vm3Yc6Hj1Gf0SpQaRuE"
KEY = "a private key"
"""In a layout: a new one."""

PAGES = "docs"

RAILS = {
    "config/database.yml": "default: &default\n  adapter: postgresql\n  username: postgres\n  password: postgres\n"
    "production:\n  url: <%= ENV['DATABASE_URL'] %>\n  password: <%= ENV['APP_DATABASE_PASSWORD'] %>\n",
    "config/secrets.yml": f"development:\n  secret_key_base: {HEX * 4}\ntest:\n  secret_key_base: {HEX * 4}\n"
    'production:\n  secret_key_base: <%= ENV["SECRET_KEY_BASE"] %>\n',
    "config/credentials.yml.enc": f"{HASH}--{HASH[:20]}--{HASH[:24]}==\n",
    "config/initializers/devise.rb": f"Devise.setup do |config|\n  # config.secret_key = '{HEX * 4}'\n"
    "  config.reset_password_within = 6.hours\n  config.password_length = 6..128\nend\n",
    "config/initializers/filter_parameter_logging.rb": "config.filter_parameters += [:passw, :secret]\n",
    "db/schema.rb": 'create_table "users" do |t|\n  t.string "encrypted_password", default: "", null: false\n'
    '  t.string "reset_password_token"\nend\n',
    "db/migrate/20240101000000_add_devise.rb": "class AddDevise < ActiveRecord::Migration[7.1]; end\n",
    "db/seeds.rb": 'User.create!(email: "admin@example.com", password: "password123")\n',
    "db/structure.sql": "CREATE TABLE users (password_digest character varying);\n",
    "spec/factories/users.rb": "factory :user do\n"
    '  password { "s3cr3t-passw0rd" }\n  token { "test-token-123" }\nend\n',
    "spec/requests/sessions_spec.rb": 'post "/login", params: { password: "hunter2" }\n'
    f'headers = {{ "Authorization" => "Bearer {JWT}" }}\n',
    "spec/fixtures/files/private_key.pem": KEY,
    "data/countries.csv": "code,name\nDE,Germany\n",
    ".env.example": "DATABASE_URL=postgres://user:password@localhost/app\nSECRET_KEY_BASE=changeme\n",
    "Gemfile.lock": "GEM\n  specs:\n    bcrypt (3.1.20)\n    devise (4.9.3)\n",
}
DJANGO = {
    "project/settings/base.py": f'SECRET_KEY = "django-insecure-{HEX}$x1@"\n'
    'DATABASES = {"default": {"PASSWORD": os.environ.get("DB_PASSWORD", "postgres")}}\n'
    'AUTH_PASSWORD_VALIDATORS = ["django.contrib.auth.password_validation.MinimumLengthValidator"]\n'
    'CELERY_BROKER_URL = "amqp://guest:guest@localhost:5672//"\n',
    "accounts/security/http.py": "def check(password1, password2):\n    if password1 == password2:\n"
    "        self.password = make_password(password1)\n",
    "accounts/migrations/0001_initial.py": '("password", models.CharField(max_length=128, verbose_name="password")),\n',
    "accounts/fixtures/users.json": '[{"fields": {"password": "pbkdf2_sha256$600000$XGKOZKyJqdQc$'
    'Rs2X7/GI8Fm1sFzkmGtQnSYrvE6HtuWNCYxOVQ+vVY4="}}]\n',
    "accounts/tests/test_login.py": 'client.login(username="a", password="password123")\n'
    'self.assertTrue(user.check_password("correct horse battery staple"))\n',
    "data/initial.sql": "INSERT INTO auth_user (password) VALUES ('!');\n",
    "database/router.py": "class Router: ...\n",
    "backups/README.md": "Run `pg_dump postgres://user:pass@db.example.com/app`.\n",
    "db.sqlite3": "SQLite format 3\0",
    "settings.py.bak": "DEBUG = True\n",
    "docker-compose.yml": "services:\n  db:\n    environment:\n      POSTGRES_PASSWORD: example\n",
    "requirements.txt": "django-rest-knox==4.2.0\npasslib==1.7.4\n",
    "poetry.lock": f'[[package]]\nname = "secretstorage"\nfiles = [{{hash = "sha256:{HEX * 2}"}}]\n',
}
NODE = {
    "package.json": '{"dependencies": {"pbkdf2-password": "1.2.1", "jsonwebtoken": "^9.0.2", "csrf-token": "~3.1.0"},\n'
    ' "scripts": {"db": "docker run -e POSTGRES_PASSWORD=password postgres"}}\n',
    "package-lock.json": '{"packages": {"node_modules/keytar": {"version": "7.9.0",\n'
    f'"resolved": "https://registry.npmjs.org/keytar/-/keytar-7.9.0.tgz", "integrity": "sha512-{HASH}"}}}}}}\n',
    "yarn.lock": f'"@types/passport@*":\n  version "1.0.16"\n  integrity sha512-{HASH}\n',
    ".npmrc": "//registry.npmjs.org/:_authToken=${NPM_TOKEN}\nsave-exact=true\n",
    "src/data/index.ts": 'export const key = "sortKey";\n',
    "src/auth/token.ts": 'const token = req.headers["authorization"]?.replace("Bearer ", "");\n'
    "export const refreshToken = async (token: string): Promise<string> => sign(token, process.env.JWT_SECRET!);\n",
    "src/config.ts": 'password: process.env.DB_PASSWORD || "postgres",\n'
    'apiKey: process.env.API_KEY ?? "your-api-key",\n',
    "test/auth.test.js": f"const secret = 'keyboard cat';\nconst token = '{JWT}';\n"
    ".set('Authorization', 'Bearer testtoken')\nauth: { username: 'tj', password: 'tobi' }\n",
    "test/fixtures/server.key": KEY,
    "examples/auth/index.js": "app.use(session({ secret: 'shhhh, very secret' }));\nauthenticate('tj', 'foobar');\n",
    "public/app.min.js": 'var a={password:"Password",token:"Token"};' * 50,
    "README.md": "Set `SLACK_WEBHOOK=https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX`\n"
    "and `STRIPE_KEY=sk_test_xxxxxxxxxxxxxxxxxxxxxxxx`.\n",
}
LARAVEL = {
    ".env.example": "APP_KEY=\nDB_PASSWORD=\nMAIL_PASSWORD=null\n",
    "phpunit.xml": '<env name="APP_KEY" value="base64:2fl+Ktvkfl+Fuz4Qp/A75G2RTiWVA/ZoKZvp6fiiM10="/>\n',
    "config/database.php": "'password' => env('DB_PASSWORD', ''),\n'url' => env('DATABASE_URL'),\n",
    "config/auth.php": "'passwords' => ['users' => ['provider' => 'users', 'table' => 'password_reset_tokens']],\n",
    "database/factories/UserFactory.php": "'password' => static::$password ??= Hash::make('password'),\n"
    "'password' => '$2y$10$92IXUNpkjO0rOQ5byMi.Ye4oKoEa3Ro9llC/.og/at2.uheWG/igi',\n"
    "'remember_token' => Str::random(10),\n",
    "database/migrations/2014_10_12_000000_create_users_table.php": "$table->string('password');\n",
    "database/seeders/DatabaseSeeder.php": "User::factory()->create(['password' => bcrypt('secret123')]);\n",
    "database/.gitignore": "*.sqlite*\n",
    "resources/lang/en/passwords.php": "'token' => 'This password reset token is invalid.',\n",
    "tests/Feature/AuthTest.php": "$this->post('/login', ['password' => 'wrong-password']);\n",
    "composer.lock": f'{{"content-hash": "{HEX}", "packages": []}}\n',
}
GO = {
    "go.sum": f"golang.org/x/crypto v0.17.0 h1:{HASH[:43]}=\n",
    "internal/credentials/credentials.go": "package credentials\n\ntype Token struct{ Password string }\n",
    "internal/secrets/store.go": 'package secrets\n\nconst tokenHeader = "X-Auth-Token"\n',
    "pkg/db/db.go": 'dsn := "postgres://postgres:postgres@localhost:5432/app?sslmode=disable"\n',
    "pkg/db/db_test.go": f'os.Setenv("AWS_ACCESS_KEY_ID", "{AWS}")\n'
    f'os.Setenv("AWS_SECRET_ACCESS_KEY", "{AWS_SECRET}")\n'
    'u, _ := url.Parse("https://user:p4ssw0rd99@example.com/")\n',
    "pkg/tls/testdata/server.pem": KEY,
    "pkg/tls/generate.go": 'pem.Encode(out, &pem.Block{Type: "RSA PRIVATE KEY", Bytes: der})\n'
    "const dummy = `-----BEGIN PRIVATE KEY-----\nMIIB...\n-----END PRIVATE KEY-----`\n",
    "deploy/helm/values.yaml": "postgresql:\n  auth:\n    password: changeme\n    existingSecret: app-postgres\n",
    "deploy/k8s/secret.example.yaml": "apiVersion: v1\nkind: Secret\nstringData:\n  password: <your password>\n",
}
DOCS = {
    f"{PAGES}/security/http.md": "## HTTP Basic Auth\n\n```\ncurl -u admin:password https://api.example.com\n"
    "Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\n```\n",
    f"{PAGES}/tutorial/oauth2-jwt.md": f'```json\n{{"access_token": "{JWT}"}}\n```\n`openssl rand -hex 32` gives\n',
    f"{PAGES}/aws.md": f"    aws_access_key_id = {AWS}\n    aws_secret_access_key = {AWS_SECRET}\n",
    f"{PAGES}/ansible.md": "    ansible-playbook site.yml --ask-vault-password --become-password-file=pw.txt\n",
    f"{PAGES}/examples/keys/demo.pem": KEY,
    f"{PAGES}/changelog.md": "- `--password-stdin` (#1234), thanks to @token\n- token: 1.2.1\n",
    "README.md": "git clone https://user:token@github.com/acme/app.git\n"
    "export GITHUB_TOKEN=ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n",
    f"{PAGES}/db.md": "`mysql -u root -phunter2`, `redis://:p4ssw0rd@redis.local:6379`, "
    "`mongodb+srv://me:<password>@c0.mongodb.net`\n",
}
LAYOUTS: Mapping[str, Mapping[str, str]] = {
    "rails": RAILS, "django": DJANGO, "node": NODE, "laravel": LARAVEL, "go": GO, "docs": DOCS,
}  # fmt: skip
SECRET = {
    ".env": "A=1\n",
    ".env.production": "A=1\n",
    "config/master.key": f"{HEX}\n",
    "deploy/terraform.tfstate": "{}\n",
    "deploy/production.pem": KEY,
    "tests/production.yml": f"token: {TOKEN}\n",
    f"{PAGES}/internal.md": "psql postgres://app:x7Kp2mQ9vL@db.prod.acme-corp.io/main\n",
    "examples/.netrc": "machine a login b password c\n",
}


@pytest.fixture(scope="module")
def key() -> str:
    return subprocess.run(["openssl", "genrsa", "2048"], capture_output=True, check=True, text=True).stdout


def checkout(folder: Path, files: Mapping[str, str], key: str) -> Path:
    """A repository that has these files in its index."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(key if text == KEY else text)
    subprocess.run("git init -q . && git add -Af", shell=True, cwd=folder, check=True)
    return folder


@pytest.mark.parametrize("name", LAYOUTS)
def test_nothing_of_a_usual_project_is_hidden(tmp_path: Path, name: str, key: str) -> None:
    """And nothing is listed but the keys among its tests and examples."""
    found = survey(checkout(tmp_path, LAYOUTS[name], key))
    assert found.hidden == {".git": "git"}
    keys = {path for path, text in LAYOUTS[name].items() if text == KEY}
    listed = {item.path for item in found.listed}
    assert keys <= listed
    assert listed - keys <= LISTED.get(name, set()), [item for item in found.listed if item.path not in keys]


LISTED: dict[str, set[str]] = {"rails": {"config/initializers/devise.rb"}}
"""What a person may want to look at in these projects."""


@pytest.mark.parametrize("name", LAYOUTS)
def test_secrets_in_such_a_project_are_hidden(tmp_path: Path, name: str, key: str) -> None:
    found = survey(checkout(tmp_path, {**LAYOUTS[name], **SECRET}, key))
    assert found.hidden == {".git": "git", **dict.fromkeys(SECRET, "secret")}
