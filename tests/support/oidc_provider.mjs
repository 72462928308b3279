// oidc-provider (npm) for the tests of the login: PORT, the address that a login comes back to.
import Provider from 'oidc-provider';

const [port, back] = process.argv.slice(2);
const issuer = `http://localhost:${port}`;
const provider = new Provider(issuer, {
  clients: [{
    client_id: 'node',
    client_secret: 'a secret+of%ours',
    redirect_uris: [back],
    post_logout_redirect_uris: [new URL('/', back).href],
  }],
  claims: { openid: ['sub'], profile: ['preferred_username', 'groups'] },
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({ sub: id, preferred_username: id, groups: ['curators'] }),
  }),
});
provider.listen(Number(port), '127.0.0.1', () => console.log('ready'));
